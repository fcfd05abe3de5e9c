"""READMEs and tests near a module, which may contain calls to its classes. Standard library only."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

_MOST_FILES = 200
_LARGEST = 200_000
_README = re.compile(r"readme\w*\.(md|markdown)", re.IGNORECASE)
_TEST = re.compile(r"test_\w+\.py|\w+_test\.py")
_TEST_FOLDERS = ("tests", "test")


def near_texts(start: str, project: str) -> Mapping[str, str]:
    """Return the text of READMEs and tests, by file, from the folder `start` up to the project's folder.

    READMEs come first, and nearer files before others.
    """
    folders, top = [Path(os.path.realpath(start))], Path(os.path.realpath(project))
    while folders[-1] != top and folders[-1].is_relative_to(top):
        folders.append(folders[-1].parent)
    files = [file for one in folders for file in _readmes(one)]
    files += [file for one in folders for name in _TEST_FOLDERS for file in _tests(one / name)]
    return {str(file): text for file in files[:_MOST_FILES] if (text := _text(file)) is not None}


def mentions(texts: Mapping[str, str], name: str) -> Mapping[str, str]:
    """Return the entries of `texts` that contain `name` as a word."""
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    return {file: text for file, text in texts.items() if name in text and word.search(text)}


def _readmes(folder: Path) -> list[Path]:
    try:
        # Folders with thousands of files are common, and creating a path for each would dominate the time.
        with os.scandir(folder) as entries:
            return [folder / name for name in sorted(entry.name for entry in entries) if _README.fullmatch(name)]
    except OSError:
        return []


def _tests(folder: Path) -> Iterator[Path]:
    found = 0
    for where, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if _TEST.fullmatch(name) and found < _MOST_FILES:
                found += 1
                yield Path(where, name)
        if found >= _MOST_FILES:
            return


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8") if file.stat().st_size <= _LARGEST else None
    except (OSError, ValueError):
        return None
