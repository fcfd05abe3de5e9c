"""Removing what is kept between runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dynalint.config import Settings

Run = Callable[..., Any]


def fill(folder: Path) -> None:
    for name in ("verdicts/a.json", "evidence/b/c.json", "findings/d.json", "rules/e.json", ".gitignore"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("*")


@pytest.fixture
def cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for this project in the user's own cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(place.parent / "caches"))
    folder = Settings(root=place).cache_location
    assert folder is not None
    assert folder.parent == place.parent / "caches" / "dynalint"
    return folder


def test_the_cache_is_removed(dynalint: Run, place: Path, cache: Path) -> None:
    fill(cache)
    ran = dynalint("clean")
    shown = f"../caches/dynalint/{cache.name}"
    assert (ran.code, ran.out, ran.err) == (0, "", f"note: removed 4 files from {shown}.\n")
    assert not cache.exists()
    assert dynalint("clean").err == f"note: nothing in {shown}.\n"
    assert dynalint("clean", "-q").err == ""


def test_what_is_not_ours_stays(dynalint: Run, place: Path) -> None:
    (place / "dynalint.toml").write_text("cache = false\n")
    fill(place / "there")
    (place / "there/mine.txt").write_text("")
    assert dynalint("clean", "--config", 'cache-dir = "there"').code == 0
    assert sorted(path.name for path in (place / "there").iterdir()) == [".gitignore", "mine.txt"]


def test_what_cannot_be_removed_is_said(dynalint: Run, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    fill(cache)
    monkeypatch.setattr("shutil.rmtree", refuse)
    ran = dynalint("clean")
    assert ran.code == 2
    assert "cannot remove the cache" in ran.err
