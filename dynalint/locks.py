"""Locks on open files, which the system takes back when the process that holds one ends, however it ends."""

from __future__ import annotations

import sys


def lock(descriptor: int) -> bool:
    """Lock an open file for as long as it is open; False where another process holds it."""
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
