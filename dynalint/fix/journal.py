"""A record of files that are being replaced together, for whoever comes after a process that was killed meanwhile.

It stands beside the first of the files, from before the first is replaced until after the last has been. Found later
by itself, it tells which files are new and which are still old, and where the new content of those lies.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

PREFIX, SUFFIX = ".dynalint-unfinished-", ".json"


@dataclass(frozen=True, slots=True)
class Entry:
    """One of the files: where it is, its name for messages, where its new content lies, and the hashes of both."""

    path: str
    name: str
    staged: str
    before: str
    after: str


def digest(data: bytes) -> str:
    """Return what tells contents apart in a record."""
    return hashlib.sha256(data).hexdigest()


def begin(entries: Sequence[Entry]) -> Path:
    """Write the record, and see to it that it is on the disk."""
    folder = Path(entries[0].path).parent
    descriptor, name = tempfile.mkstemp(prefix=PREFIX, suffix=SUFFIX, dir=folder)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"process": os.getpid(), "files": [asdict(entry) for entry in entries]}, file)
        file.flush()
        os.fsync(file.fileno())
    return Path(name)


def interrupted(folders: Iterable[Path]) -> bool:
    """Whether one of the folders holds a record."""
    return any(True for folder in set(folders) for _ in folder.glob(f"{PREFIX}*{SUFFIX}"))


def finish_interrupted(folders: Iterable[Path]) -> tuple[list[str], list[str]]:
    """Carry fixes of several files to their end that an earlier process was killed in the middle of.

    Returns sentences about what was finished, and about what could not be: which files have the fix and which have not.
    """
    notes: list[str] = []
    failures: list[str] = []
    for folder in sorted(set(folders)):
        for record in sorted(folder.glob(f"{PREFIX}*{SUFFIX}")):
            try:
                text = json.loads(record.read_text(encoding="utf-8"))
                process, entries = int(text["process"]), [Entry(**entry) for entry in text["files"]]
            except (OSError, ValueError, TypeError, KeyError):
                # Killed while it was written: before the first file was replaced.
                record.unlink(missing_ok=True)
                continue
            if not _runs(process):
                _finish(entries, notes, failures)
                _tidy(record, entries)
    return notes, failures


def _finish(entries: Sequence[Entry], notes: list[str], failures: list[str]) -> None:
    new = [entry for entry in entries if _digest_of(entry.path) == entry.after]
    old = [entry for entry in entries if entry not in new]
    if not new or not old:
        return
    if all(_digest_of(entry.path) == entry.before and _digest_of(entry.staged) == entry.after for entry in old):
        with contextlib.suppress(OSError):
            while old:
                Path(old[0].staged).replace(old[0].path)
                new.append(old.pop(0))
    if old:
        failures.append(
            f"a fix of several files was interrupted and cannot be finished: {_names(new)} changed, {_names(old)} not; "
            f"put {'it' if len(new) == 1 else 'them'} back, or make the rest of the change by hand"
        )
    else:
        notes.append(f"finished an interrupted fix of {_names(entries)}")


def _tidy(record: Path, entries: Sequence[Entry]) -> None:
    for entry in entries:
        with contextlib.suppress(OSError):
            Path(entry.staged).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        record.unlink(missing_ok=True)


def _digest_of(path: str) -> str | None:
    try:
        return digest(Path(path).read_bytes())
    except OSError:
        return None


def _names(entries: Sequence[Entry]) -> str:
    return " and ".join(entry.name for entry in entries)


def _runs(process: int) -> bool:
    """Whether a process is there; another one may have its number by now, and then the record waits for it to end."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
