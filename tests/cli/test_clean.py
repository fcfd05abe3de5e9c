"""Removing what is kept between runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def fill(folder: Path) -> None:
    for name in ("verdicts/a.json", "evidence/b/c.json", ".gitignore"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("*")


def test_the_cache_is_removed(dynalint: Run, place: Path) -> None:
    fill(place / ".dynalint_cache")
    ran = dynalint("clean")
    assert (ran.code, ran.out, ran.err) == (0, "", "note: removed 2 files from .dynalint_cache.\n")
    assert not list(place.iterdir())
    assert dynalint("clean").err == "note: nothing in .dynalint_cache.\n"
    assert dynalint("clean", "-q").err == ""


def test_what_is_not_ours_stays(dynalint: Run, place: Path) -> None:
    (place / "dynalint.toml").write_text('cache-dir = "there"\ncache = false\n')
    fill(place / "there")
    (place / "there/mine.txt").write_text("")
    assert dynalint("clean").code == 0
    assert sorted(path.name for path in (place / "there").iterdir()) == [".gitignore", "mine.txt"]


def test_what_cannot_be_removed_is_said(dynalint: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    fill(place / ".dynalint_cache")
    monkeypatch.setattr("shutil.rmtree", refuse)
    ran = dynalint("clean")
    assert ran.code == 2
    assert "cannot remove the cache" in ran.err
