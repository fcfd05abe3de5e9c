"""Which interpreter runs the code where none is named."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from dynalint.confirm.interpreter import find_interpreter

OWN = Path(sys.executable)
SCRIPT = "Scripts/python.exe" if sys.platform == "win32" else "bin/python"
LIBRARY = "Lib/site-packages" if sys.platform == "win32" else "lib/python3.12/site-packages"


def environment(prefix: Path, *, torch: bool = True) -> Path:
    """Make what looks like an environment, and return its interpreter."""
    for name, wanted in ((SCRIPT, True), (f"{LIBRARY}/torch/version.py", torch)):
        if wanted:
            (prefix / name).parent.mkdir(parents=True, exist_ok=True)
            (prefix / name).touch()
    return prefix / SCRIPT


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have dynalint stand in an environment of its own."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))


def test_the_activated_environment_comes_first(tmp_path: Path) -> None:
    active, conda = environment(tmp_path / "active"), environment(tmp_path / "conda")
    environment(tmp_path / ".venv")
    both = {"VIRTUAL_ENV": str(tmp_path / "active"), "CONDA_PREFIX": str(tmp_path / "conda")}
    assert find_interpreter(tmp_path, both) == active
    assert find_interpreter(tmp_path, {"CONDA_PREFIX": str(tmp_path / "conda")}) == conda


def test_one_without_torch_is_passed_over(tmp_path: Path, without_torch: None) -> None:
    environment(tmp_path / "tool", torch=False)
    beside = environment(tmp_path / "venv")
    assert find_interpreter(tmp_path, {"VIRTUAL_ENV": str(tmp_path / "tool")}) == beside


def test_the_folder_of_a_workspace_above_counts(tmp_path: Path, without_torch: None) -> None:
    above = environment(tmp_path / ".venv")
    member = tmp_path / "packages" / "models"
    member.mkdir(parents=True)
    assert find_interpreter(member, {}) == above
    assert find_interpreter(member, {"VIRTUAL_ENV": str(tmp_path / "gone")}) == above


def test_its_own_where_that_has_torch_or_nothing_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_interpreter(tmp_path, {}) == OWN
    environment(tmp_path / ".venv")
    assert find_interpreter(tmp_path, {}) == OWN
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert find_interpreter(tmp_path / "alone", {}) == environment(tmp_path / ".venv")
