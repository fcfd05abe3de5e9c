"""The state shared by all processes of a traced command, as files in a folder. Uses only the standard library.

Locks are kernel locks, which are released no matter how a process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VARIABLE = "DYNALINT_TRACE"
_SETTINGS = "settings.json"
_SLOTS = 16
_PAUSE = 0.02
# A class that is called with ever-changing shapes must not use up the time for all other classes.
_MOST_OF_A_KIND = 8


class Session:
    """A run of `dynalint trace`, as seen from any of its processes."""

    def __init__(self, folder: str) -> None:
        """Open a session. Raises OSError or ValueError if the folder does not contain one."""
        self.folder = Path(folder)
        settings = json.loads((self.folder / _SETTINGS).read_bytes())
        self.evidence = Path(settings["evidence"])
        self.roots: list[str] = settings["roots"]
        self.homes: tuple[str, ...] = tuple(settings["homes"])
        self.budget: float = settings["budget"]
        self.seconds: float = settings["seconds"]
        self.memory: int = settings["memory"]
        self.namespaces: int = settings["namespaces"]
        self.required: bool = settings["required"]
        self.started: float = settings["started"]

    @staticmethod
    def create(folder: Path, settings: Mapping[str, Any]) -> Session:
        """Start a session in an empty folder."""
        (folder / _SETTINGS).write_text(json.dumps(settings), encoding="utf-8")
        for name in ("claims", "notes"):
            (folder / name).mkdir()
        return Session(str(folder))

    @property
    def spent(self) -> float:
        """The part of the budget that has been used, in seconds."""
        with contextlib.suppress(OSError, ValueError):
            return float((self.folder / "spent").read_bytes() or b"0")
        return 0.0

    @property
    def left(self) -> float:
        """The remaining part of the budget, in seconds."""
        return self.budget - self.spent

    def spend(self, seconds: float) -> None:
        """Subtract seconds from the budget."""
        with self._locked("spending"):
            (self.folder / "spent").write_text(repr(self.spent + seconds), encoding="ascii")

    def claim(self, kind: str, key: str) -> bool:
        """Claim a call for this process. Return False if it is already claimed or its kind has used up its share."""
        folder = self.folder / "claims" / kind
        folder.mkdir(exist_ok=True)
        if sum(1 for _ in folder.iterdir()) >= _MOST_OF_A_KIND:
            return False
        try:
            os.close(os.open(folder / key, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def slot(self, size: int) -> int | None:
        """Wait for a slot for a snapshot of `size` bytes. Return its descriptor, or None if no slot becomes free.

        The slot is taken until all copies of the descriptor are closed.
        """
        free = _available_memory()
        count = _SLOTS if free is None else min(_SLOTS, free // 2 // max(size, 1))
        # A snapshot reports its time only at the end, and it may never end.
        end = time.monotonic() + self.left
        while count and self.left > 0 and time.monotonic() < end:
            for number in range(count):
                descriptor = os.open(self.folder / f"slot-{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                if _locks(descriptor):
                    os.ftruncate(descriptor, 0)
                    return descriptor
                os.close(descriptor)
            time.sleep(_PAUSE)
        return None

    def is_over(self) -> bool:
        """Return whether the session is over, because its folder or the process that created it is gone."""
        try:
            # Open the file read-only, because a supervisor cannot write files.
            descriptor = os.open(self.folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return not self.folder.is_dir()
        except OSError:
            return False
        try:
            return _locks(descriptor)
        finally:
            os.close(descriptor)

    def waiting(self) -> bool:
        """Return whether any snapshot is running or waiting for its turn."""
        return any(True for _ in self._taken())

    def abandon(self) -> None:
        """Kill the remaining snapshots. The processes below each snapshot end with it."""
        for text in self._taken():
            self.note(failed="a fork of the program did not end in time")
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(text), signal.SIGKILL)

    def _taken(self) -> Iterator[bytes]:
        """Yield the process id of each running snapshot, or an empty string if it has not been written yet."""
        for file in self.folder.glob("slot-*"):
            descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
            try:
                if not _locks(descriptor):
                    yield os.pread(descriptor, 32, 0)
            finally:
                os.close(descriptor)

    def turn(self) -> contextlib.AbstractContextManager[None]:
        """Let only one snapshot work at a time, so that the sum of their times is the time spent."""
        return self._locked("turn")

    def note(self, **values: Any) -> None:
        """Write a note for the summary."""
        line = json.dumps(values) + "\n"
        with (self.folder / "notes" / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(line)

    def notes(self) -> Iterator[dict[str, Any]]:
        """Yield the notes from all processes."""
        for file in sorted((self.folder / "notes").iterdir()):
            for line in file.read_text(encoding="utf-8").splitlines():
                with contextlib.suppress(ValueError):
                    yield json.loads(line)

    def keep(self, key: str, evidence: Mapping[str, Any]) -> None:
        """Store evidence for `dynalint check`."""
        self.evidence.mkdir(parents=True, exist_ok=True)
        marker = self.evidence.parent / ".gitignore"
        if not marker.exists():
            marker.write_text("*\n", encoding="utf-8")
        handle, temporary = tempfile.mkstemp(dir=self.evidence, prefix=".tmp-")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(evidence, stream, separators=(",", ":"))
        Path(temporary).replace(self.evidence / f"{key}.json")

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        descriptor = os.open(self.folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _locks(descriptor: int) -> bool:
    """Lock an open file for this process and its forks. Return False if another process holds the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def digest(value: object) -> str:
    """Return a hash of a value's `repr`, which is the same in every process."""
    return hashlib.sha256(repr(value).encode("utf-8", "backslashreplace")).hexdigest()[:32]


def content_hash(path: str) -> str | None:
    """Return the hash of a file's contents, or None if it cannot be read."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return None


def _available_memory() -> int | None:
    """Return the memory that the system has available, in bytes, or None if unknown."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None
