"""Folders for temporary files that are gone in the end, however a run ends.

Each holds a file with a lock on it, which the kernel lets go of when the process that made the folder is gone. What a
crash of the machine, or a kill of all processes at once, has left behind is removed by the next run that finds it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from pathlib import Path

from dynalint.confirm.worker.process.leftovers import remove

_PREFIX = "dynalint-"
_LOCK = "lock"


class TemporaryFolder:
    """A folder of this process alone; `path` is where."""

    def __init__(self) -> None:
        """Make it. Raises OSError where that cannot be done."""
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = _locked(self.path / "locking", os.O_CREAT)
        if self._lock is not None:
            # Never to be seen without the lock on it.
            (self.path / "locking").rename(self.path / _LOCK)

    def remove(self) -> None:
        """Remove it with all that is in it."""
        remove(self.path)
        held, self._lock = self._lock, None
        if held is not None:
            os.close(held)


def is_owned(folder: Path) -> bool:
    """Whether the process that has made a temporary folder is still there; True where that cannot be told."""
    held = _locked(folder / _LOCK)
    if held is None:
        return True
    os.close(held)
    return False


def remove_abandoned() -> None:
    """Remove what processes of this user's that are no more have left in the folder for temporary files.

    Others may write there too: only folders that belong to this user and that nobody else may enter count.
    """
    if not hasattr(os, "getuid"):
        return
    with contextlib.suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError):
                state = folder.lstat()
                private = stat.S_ISDIR(state.st_mode) and stat.S_IMODE(state.st_mode) == 0o700
                if private and state.st_uid == os.getuid() and not is_owned(folder):
                    remove(folder)


def _locked(file: Path, flags: int = 0) -> int | None:
    """Lock a file for this process and return its descriptor, None where another has it or it cannot be done."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | flags, 0o600)
    except (OSError, AttributeError):  # on Windows nobody else may enter a user's folder for temporary files
        return None
    if _lock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


def _lock(descriptor: int) -> bool:
    """Lock an open file until it is closed. Return False if another process holds the lock."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
