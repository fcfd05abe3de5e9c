"""What identifies the code that finds problems."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dynalint.caching import stamp as module

Stamp = Callable[[], str | None]


@pytest.fixture
def stamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stamp:
    """Compute the stamp with a rule pack `extra_rules.torch` on the path, as an entry point names it."""

    class Point:
        value = "extra_rules.torch"

    write(tmp_path / "extra_rules/__init__.py", "")
    write(tmp_path / "extra_rules/torch/__init__.py", "x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(module, "entry_points", lambda group: [Point] if group == "dynalint.rules" else [])
    return module.stamp.__wrapped__


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (1, 1))


def test_the_same_code(stamp: Stamp, tmp_path: Path) -> None:
    """Installing it again, as CI does, changes the times of all files."""
    before = stamp()
    assert before is not None
    os.utime(tmp_path / "extra_rules/__init__.py", (2, 2))
    write(tmp_path / "extra_rules/__pycache__/torch.pyc", "compiled")
    assert stamp() == before


@pytest.mark.parametrize(
    ("name", "text"),
    [("torch/__init__.py", "x = 2\n"), ("torch/rule.py", ""), ("helpers.py", ""), ("torch/data.json", "{}")],
)
def test_other_code(stamp: Stamp, tmp_path: Path, name: str, text: str) -> None:
    before = stamp()
    write(tmp_path / "extra_rules" / name, text)
    assert stamp() not in (before, None)


def test_another_python_or_library(stamp: Stamp, monkeypatch: pytest.MonkeyPatch) -> None:
    stamps = {stamp()}
    with monkeypatch.context() as patch:
        patch.setattr("sys.version", "3.99")
        stamps.add(stamp())
    monkeypatch.setattr(module, "version", lambda library: f"{library} 99")
    stamps.add(stamp())
    assert len(stamps) == 3


def test_a_pack_that_is_missing(stamp: Stamp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that loads the rules says so; nothing may be kept under a stamp that does not cover them."""
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert stamp() is None
