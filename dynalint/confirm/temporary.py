"""Temporary folders that are always removed, no matter how a run ends.

Each folder contains a locked file, and the kernel releases the lock when the process that owns it ends. If the machine
crashes or all processes are killed, a later run removes the folders.
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
    """A temporary folder for this process, at `path`."""

    def __init__(self) -> None:
        """Create the folder. Raises OSError if that fails."""
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = _locked(self.path / "locking", os.O_CREAT)
        if self._lock is not None:
            # Rename the file once it is locked, so that no process sees it unlocked.
            (self.path / "locking").rename(self.path / _LOCK)

    def remove(self) -> None:
        """Remove the folder and its contents."""
        remove(self.path)
        held, self._lock = self._lock, None
        if held is not None:
            os.close(held)


def is_owned(folder: Path) -> bool:
    """Return whether the process that created a temporary folder is still running, or True if this is unknown."""
    held = _locked(folder / _LOCK)
    if held is None:
        return True
    os.close(held)
    return False


def remove_abandoned() -> None:
    """Remove this user's temporary folders if their processes have ended.

    Other users may write to the same location, so dynalint considers only folders that this user owns and nobody else
    can enter.
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
    """Lock a file and return its descriptor, or None if another process holds the lock or locking fails."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | flags, 0o600)
    except (OSError, AttributeError):  # On Windows, only the user can enter their temporary folder.
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
