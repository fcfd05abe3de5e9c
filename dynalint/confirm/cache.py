"""Verdicts kept between runs: what a target showed stays true while nothing it ran on has changed.

One JSON file for each question (target, example, versions, flags). It names every file of the user's own that the run
imported, with a hash of its content, and counts only while all of them are as they were. A file that cannot be read,
or does not fit, counts as missing: nothing here can fail a run.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dynalint.reading import MOST_NOTEBOOK_BYTES, read_bounded, read_json

_FORMAT = 2
_FOLDER = "verdicts"


class FileHashes:
    """Hashes of what files hold, read once; `texts` stand in for files."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._known: dict[str, str | None] = {}

    def of(self, path: str) -> str | None:
        """Return the hash of a file's content, None where it cannot be read."""
        if path not in self._known:
            text = self._texts.get(path)
            try:
                content = read_bounded(Path(path), MOST_NOTEBOOK_BYTES) if text is None else text.encode()
            except OSError:
                self._known[path] = None
            else:
                self._known[path] = hashlib.sha256(content).hexdigest()
        return self._known[path]


class VerdictCache:
    """Answers of workers, by question. `folder` is None where nothing may be kept; `texts` stand in for files."""

    def __init__(self, folder: Path | None, texts: Mapping[str, str]) -> None:
        self._folder = None if folder is None else folder / _FOLDER
        self._hashes = FileHashes(texts)

    def get(self, question: Mapping[str, Any], spots: Mapping[str, list[list[int]]]) -> dict[str, Any] | None:
        """Return the answer to a question, None unless it is still true and knows all `spots` of the files it ran."""
        if self._folder is None:
            return None
        try:
            entry = read_json(self._file(question))
            if entry["format"] != _FORMAT or entry["question"] != question:
                return None
            files = entry["files"]
            if any(self._hashes.of(path) != known for path, known in files.items()):
                return None
            known_spots = entry["spots"]
            for path, wanted in spots.items():
                if path in files and any(spot not in known_spots.get(path, ()) for spot in wanted):
                    return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return {"answer": entry["answer"], "spots": known_spots}

    def put(
        self,
        question: Mapping[str, Any],
        spots: Mapping[str, list[list[int]]],
        files: Iterable[str],
        answer: Mapping[str, Any],
    ) -> None:
        """Keep an answer; does nothing where the folder cannot be written."""
        if self._folder is None:
            return
        entry = {
            "format": _FORMAT,
            "question": question,
            "spots": spots,
            "files": {path: self._hashes.of(path) for path in files},
            "answer": answer,
        }
        with contextlib.suppress(OSError):
            make_folder(self._folder)
            write_atomically(self._file(question), json.dumps(entry, separators=(",", ":")).encode())

    def _file(self, question: Mapping[str, Any]) -> Path:
        name = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:32]
        return Path(self._folder or "", f"{name}.json")


def make_folder(folder: Path) -> None:
    """Make a folder of the cache, which git is to ignore.

    Raises:
        OSError: it cannot be made, or a link stands in its place: what is kept would go wherever that leads.
    """
    if folder.is_symlink():
        raise OSError(errno.ELOOP, "a link stands in its place", str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    marker = folder.parent / ".gitignore"
    if not marker.exists():
        marker.write_text("*\n", encoding="utf-8")


def write_atomically(path: Path, content: bytes) -> None:
    """Put a whole file in place or none; another run may write the same one at the same time."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
