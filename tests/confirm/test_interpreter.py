"""Which interpreter runs the code where none is named."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from dynalint.projects.environments import Choice, find_interpreter, installed_torch

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


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of git's that tracks nothing yet."""
    git(tmp_path, "init", "--quiet")
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True)


def chosen(project: Path, environment: Mapping[str, str] | None = None, *, trusted: bool = False) -> Path:
    return find_interpreter(project, trusted=trusted, environment=environment or {}).python


def test_the_activated_environment_comes_first(repository: Path) -> None:
    active, conda = environment(repository / "active"), environment(repository / "conda")
    environment(repository / ".venv")
    both = {"VIRTUAL_ENV": str(repository / "active"), "CONDA_PREFIX": str(repository / "conda")}
    assert chosen(repository, both) == active
    assert chosen(repository, {"CONDA_PREFIX": str(repository / "conda")}) == conda


def test_one_without_torch_is_passed_over(repository: Path, without_torch: None) -> None:
    environment(repository / "tool", torch=False)
    beside = environment(repository / "venv")
    assert chosen(repository, {"VIRTUAL_ENV": str(repository / "tool")}) == beside


def test_the_folder_of_a_workspace_above_counts(repository: Path, without_torch: None) -> None:
    above = environment(repository / ".venv")
    member = repository / "packages" / "models"
    member.mkdir(parents=True)
    assert chosen(member) == above
    assert chosen(member, {"VIRTUAL_ENV": str(repository / "gone")}) == above


def test_what_is_above_the_project_does_not(tmp_path: Path, without_torch: None) -> None:
    environment(tmp_path / ".venv")
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "--quiet")
    assert chosen(project) == OWN


@pytest.mark.dynamo
def test_its_own_where_that_has_torch_or_nothing_has(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(repository) == OWN
    environment(repository / ".venv")
    assert chosen(repository) == OWN
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert chosen(repository) == environment(repository / ".venv")


def test_what_git_tracks_is_never_started(repository: Path, without_torch: None) -> None:
    environment(repository / ".venv")
    git(repository, "add", "--force", ".venv/" + SCRIPT)
    choice = find_interpreter(repository, trusted=True, environment={})
    assert choice == Choice(OWN, (repository / ".venv",))
    (told,) = choice.notes(repository)
    assert told.startswith(".venv has torch but is not used, because it may have come with the project")


def test_where_git_cannot_tell_the_user_must(tmp_path: Path, without_torch: None) -> None:
    beside = environment(tmp_path / ".venv")
    (tmp_path / "pyproject.toml").touch()
    assert find_interpreter(tmp_path, environment={}) == Choice(OWN, (tmp_path / ".venv",))
    assert chosen(tmp_path, trusted=True) == beside


@pytest.mark.dynamo
def test_the_release_is_read_off_the_metadata(tmp_path: Path) -> None:
    python = environment(tmp_path)
    assert installed_torch(python) is None
    (tmp_path / LIBRARY / "torch-2.11.0+cu128.dist-info").mkdir()
    assert installed_torch(python) == "2.11.0+cu128"
    assert installed_torch(OWN) == importlib.metadata.version("torch")
