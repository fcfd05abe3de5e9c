"""The cache of worker answers. An answer is valid until a file that the target ran changes.

Each question (target, example, versions, flags) has its own JSON file. It lists every file with user code that the run
imported, with a hash of its contents, and it is only used while all hashes match. A file that is unreadable or
malformed counts as missing, so the cache never makes a run fail.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dynalint.caching.folders import make_folder, write_atomically
from dynalint.confirm.shards import Answers
from dynalint.projects.reading import MOST_NOTEBOOK_BYTES, read_bounded, read_json

_FORMAT = 3
_FOLDER = "verdicts"


class FileHashes:
    """Hashes of files' contents. Each file is read only once. `texts` override the files on disk."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._known: dict[str, str | None] = {}

    def of(self, path: str) -> str | None:
        """Return the hash of a file's contents, or None if the file cannot be read."""
        if path not in self._known:
            text = self._texts.get(path)
            try:
                content = (
                    read_bounded(Path(path), MOST_NOTEBOOK_BYTES)
                    if text is None
                    else text.encode("utf-8", "surrogatepass")
                )
            except (OSError, ValueError):
                self._known[path] = None
            else:
                self._known[path] = hashlib.sha256(content).hexdigest()
        return self._known[path]

    def still(self, path: str, known: str | None) -> bool:
        """Return whether the file's hash is still `known`.

        This is false if `known` is None, because the file could not be read.
        """
        return known is not None and self.of(path) == known


class VerdictCache:
    """Worker answers by question. `folder` is None if nothing may be stored, and `texts` override the files on disk.

    `answers` are answers from other machines, which take precedence over stored answers. They also collect the answers
    from this run.
    """

    def __init__(self, folder: Path | None, texts: Mapping[str, str], answers: Answers | None = None) -> None:
        self._folder = None if folder is None else folder / _FOLDER
        self._hashes = FileHashes(texts)
        self._answers = answers

    def get(self, question: Mapping[str, Any], spots: Mapping[str, list[list[int]]]) -> dict[str, Any] | None:
        """Return the stored answer if its files are unchanged and it covers all `spots` in them.

        Otherwise, return None.
        """
        key = _key(question)
        given = self._answers.given.get(key) if self._answers is not None else None
        entry = self._valid(given, question, spots)
        if self._answers is not None and entry is not None:
            self._answers.used.add(key)
        if entry is None and self._folder is not None:
            with contextlib.suppress(OSError, ValueError):
                entry = self._valid(read_json(self._folder / f"{key}.json"), question, spots)
        if entry is None:
            return None
        if self._answers is not None:
            self._answers.made[key] = entry
        return {"answer": entry["answer"], "spots": entry["spots"]}

    def _valid(
        self, entry: Any, question: Mapping[str, Any], spots: Mapping[str, list[list[int]]]
    ) -> dict[str, Any] | None:
        try:
            if entry is None or entry["format"] != _FORMAT or entry["question"] != question:
                return None
            files, known = entry["files"], entry["spots"]
            if not all(self._hashes.still(path, hashed) for path, hashed in files.items()):
                return None
            wanted = ((path, spot) for path in spots.keys() & files.keys() for spot in spots[path])
            sound = isinstance(entry["answer"], dict) and all(spot in known.get(path, ()) for path, spot in wanted)
            return dict(entry) if sound else None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def put(
        self,
        question: Mapping[str, Any],
        spots: Mapping[str, list[list[int]]],
        files: Iterable[str],
        answer: Mapping[str, Any],
        *,
        lasting: bool = True,
    ) -> None:
        """Store an answer. It is written to disk only if it is `lasting` and the folder is writable."""
        if self._answers is None and (self._folder is None or not lasting):
            return
        entry = {
            "format": _FORMAT,
            "question": question,
            "spots": spots,
            "files": {path: self._hashes.of(path) for path in sorted(files)},
            "answer": answer,
        }
        if self._answers is not None:
            self._answers.made[_key(question)] = entry
        if self._folder is not None and lasting:
            with contextlib.suppress(OSError):
                make_folder(self._folder)
                write_atomically(
                    self._folder / f"{_key(question)}.json", json.dumps(entry, separators=(",", ":")).encode()
                )


def _key(question: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:32]
