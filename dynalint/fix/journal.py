"""A record of files that are being replaced, for whoever comes after a process that was killed meanwhile.

It stands in the user's own state folder, where no repository can put one, from before the first new content is written
until after the last file has been replaced, and is locked that long: whoever can lock it knows that its process is
gone. It tells which files are new and which are still old; where the new content of those lies follows from its name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dynalint.locks import lock
from dynalint.reading import MOST_NOTEBOOK_BYTES, read_bounded
from dynalint.user_folders import state_folder

_FOLDER = "unfinished"
_NAME = re.compile(r"[0-9a-f]{16}\.json")
_MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One of the files: where it is, its name for messages, and the hashes of its old and new content."""

    path: str
    name: str
    before: str
    after: str


class Record:
    """What `begin` has written down; `end` takes it away."""

    def __init__(self, file: Path, descriptor: int) -> None:
        self._file, self._descriptor = file, descriptor

    def staged(self, target: Path) -> Path:
        """Return where the new content of a file is to be kept until it takes the file's place."""
        return _staged(target, self._file.stem)

    def end(self) -> None:
        """Forget the record: nothing is left to be finished or tidied."""
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)


def digest(data: bytes) -> str:
    """Return what tells contents apart in a record."""
    return hashlib.sha256(data).hexdigest()


def beside(target: Path) -> Path:
    """Return a new name beside a file for content that takes its place at once."""
    return _staged(target, secrets.token_hex(8))


def begin(entries: Sequence[Entry]) -> Record:
    """Write the record, and see to it that it is on the disk.

    Raises:
        OSError: it cannot be written, or the user has no home folder.
    """
    folder = _records()
    if folder is None:
        raise FileNotFoundError("this user has no home folder")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = folder / f"{secrets.token_hex(8)}.json"
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    record = Record(file, descriptor)
    try:
        # Locked while it is empty: nobody may take it for one that was left behind.
        lock(descriptor)
        os.write(descriptor, json.dumps([asdict(entry) for entry in entries]).encode())
        os.fsync(descriptor)
    except BaseException:
        record.end()
        raise
    return record


def interrupted(roots: Collection[Path]) -> bool:
    """Whether a process was killed while it replaced files below one of the folders `roots`."""
    return any(True for _ in _left_behind(roots))


def finish_interrupted(roots: Collection[Path]) -> tuple[list[str], list[str]]:
    """Carry fixes below `roots` to their end that an earlier process was killed in the middle of, and tidy up after it.

    Returns sentences about what was finished, and about what could not be: which files have the fix and which have not.
    """
    notes: list[str] = []
    failures: list[str] = []
    for record, entries in _left_behind(roots):
        _finish(record, entries, notes, failures)
        for entry in entries:
            with contextlib.suppress(OSError):
                record.staged(Path(entry.path)).unlink(missing_ok=True)
        record.end()
    return notes, failures


def _records() -> Path | None:
    folder = state_folder()
    return None if folder is None else folder / _FOLDER


def _left_behind(roots: Collection[Path]) -> Iterator[tuple[Record, list[Entry]]]:
    """Yield the records whose process is gone and whose files all lie below `roots`, each locked while it is looked at.

    One that makes no sense is taken away: its process was killed while it wrote it, so before it changed anything.
    """
    folder = _records()
    if folder is None:
        return
    try:
        names = sorted(name for name in os.listdir(folder) if _NAME.fullmatch(name))  # noqa: PTH208 - bare names
    except OSError:
        return
    for name in names:
        try:
            descriptor = os.open(folder / name, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
        except OSError:
            continue
        record = Record(folder / name, descriptor)
        try:
            # Whoever held the lock before may have ended the record meanwhile.
            if lock(descriptor) and (folder / name).exists():
                entries = _entries(descriptor)
                if entries is None:
                    record.end()
                elif all(_may_touch(entry, roots) for entry in entries):
                    yield record, entries
        finally:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _entries(descriptor: int) -> list[Entry] | None:
    """Return the entries of a record, None if it is none."""
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_size > _MOST_BYTES:
            return None
        entries = [Entry(**one) for one in json.loads(os.read(descriptor, _MOST_BYTES))]
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    texts = (text for one in entries for text in (one.path, one.name, one.before, one.after))
    return entries if entries and all(isinstance(text, str) and "\0" not in text for text in texts) else None


def _may_touch(entry: Entry, roots: Collection[Path]) -> bool:
    """Whether an entry names a file below one of `roots`, by a path without links, as `begin` was given it."""
    path = Path(entry.path)
    is_plain = os.path.realpath(path) == entry.path and not path.is_symlink()
    return is_plain and any(path.is_relative_to(os.path.realpath(root)) for root in roots)


def _finish(record: Record, entries: Sequence[Entry], notes: list[str], failures: list[str]) -> None:
    new = [entry for entry in entries if _digest_of(Path(entry.path)) == entry.after]
    old = [entry for entry in entries if entry not in new]
    if not new or not old:
        return
    if all(
        _digest_of(Path(entry.path)) == entry.before and _digest_of(record.staged(Path(entry.path))) == entry.after
        for entry in old
    ):
        with contextlib.suppress(OSError):
            while old:
                record.staged(Path(old[0].path)).replace(old[0].path)
                new.append(old.pop(0))
    if old:
        failures.append(
            f"a fix of several files was interrupted and cannot be finished: {_names(new)} changed, {_names(old)} not; "
            f"restore {'it' if len(new) == 1 else 'them'}, or make the rest of the change by hand"
        )
    else:
        notes.append(f"finished an interrupted fix of {_names(entries)}")


def _staged(target: Path, token: str) -> Path:
    # A hash, for a long name could not be made longer.
    return target.with_name(f".dynalint-{token}-{digest(os.fsencode(target.name))[:8]}.tmp")


def _digest_of(path: Path) -> str | None:
    """Return the digest of a regular file, None for anything else."""
    try:
        return None if path.is_symlink() else digest(read_bounded(path, MOST_NOTEBOOK_BYTES))
    except OSError:
        return None


def _names(entries: Sequence[Entry]) -> str:
    return " and ".join(entry.name for entry in entries)
