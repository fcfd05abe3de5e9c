"""The evidence stored by `dynalint trace`: a file for each kind of call, valid until a file that the call ran changes.

A file that is unreadable or malformed counts as missing, so evidence never makes a run fail.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dynalint.confirm.cache import FileHashes
from dynalint.confirm.options import Target
from dynalint.confirm.results import TargetResult, result_of
from dynalint.confirm.worker.source.spans import count
from dynalint.projects.reading import read_json

FORMAT = 1
_FOLDER = "evidence"
# Bits that say which runs traced an operation.
_DEFAULT, _LATENT = 1, 2


class EvidenceStore:
    """The evidence in a cache folder. `texts` override the files on disk."""

    def __init__(self, cache: Path, texts: Mapping[str, str] | None = None) -> None:
        self.folder = cache / _FOLDER
        self._hashes = FileHashes(texts or {})

    def results(self, torch: str | None, spots: Mapping[str, list[list[int]]]) -> Iterator[TargetResult]:
        """Yield the results of traced calls whose files are unchanged. If `torch` is known, the release must match."""
        for key, entry in self._entries():
            if self._holds(entry) and (torch is None or _release(entry["torch"]) == _release(torch)):
                result = self.result(key, spots)
                if result is not None:
                    yield result

    def outdated(self) -> set[Target]:
        """Return the targets that only have evidence that is out of date."""
        holds: dict[Target, bool] = {}
        for _, entry in self._entries():
            with contextlib.suppress(KeyError, TypeError):
                target = _target(entry)
                holds[target] = holds.get(target, False) or self._holds(entry)
        return {target for target, good in holds.items() if not good}

    def result(self, key: str, spots: Mapping[str, list[list[int]]]) -> TargetResult | None:
        """Return the result of a call, or None if there is no evidence with this key."""
        entry = _read(self.folder / f"{key}.json")
        if entry is None:
            return None
        try:
            target = _target(entry)
            wanted = {path: spots[path] for path in entry["spans"] if path in spots}
            record, tables = entry["record"], entry["spans"]
            parts = {**record["parts"], "files": list(entry["files"])}
            parts["coverage"] = {path: _coverage(tables[path], found, _DEFAULT) for path, found in wanted.items()}
            if parts.get("latent") is not None:
                covered = {path: _coverage(tables[path], found, _LATENT) for path, found in wanted.items()}
                parts["latent"] = {**parts["latent"], "coverage": covered}
            return result_of(target, entry["torch"], {**record, "parts": parts}, wanted)
        except (KeyError, TypeError, ValueError, AttributeError):
            return None

    def keys(self) -> list[tuple[str, str]]:
        """Return the kind and key of each call that has evidence."""
        return [(entry["kind"], key) for key, entry in self._entries()]

    def discard_stale(self) -> None:
        """Delete evidence that is out of date."""
        for key, entry in list(self._entries()):
            if not self._holds(entry):
                with contextlib.suppress(OSError):
                    (self.folder / f"{key}.json").unlink()

    def _entries(self) -> Iterator[tuple[str, dict[str, Any]]]:
        try:
            files = sorted(self.folder.glob("*.json"))
        except OSError:
            return
        for file in files:
            entry = _read(file)
            if entry is not None:
                yield file.stem, entry

    def _holds(self, entry: Mapping[str, Any]) -> bool:
        return all(self._hashes.still(path, known) for path, known in entry["files"].items())


def _target(entry: Mapping[str, Any]) -> Target:
    return Target(Path(entry["target"]["path"]), entry["target"]["module"], entry["target"]["qualname"])


def _read(file: Path) -> dict[str, Any] | None:
    try:
        entry = read_json(file)
        needed = ("target", "files", "torch", "spans", "record", "kind")
        return entry if entry["format"] == FORMAT and all(name in entry for name in needed) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _release(torch: str) -> str:
    return torch.partition("+")[0]


def _coverage(table: list[list[int]], spots: list[list[int]], run: int) -> list[dict[str, int]]:
    operations = [(line, column, end, end_column) for line, column, end, end_column, _ in table]
    return count(spots, operations, {span for span, row in zip(operations, table, strict=True) if row[4] & run})
