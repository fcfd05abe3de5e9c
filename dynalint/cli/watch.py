"""`--watch`, which checks again whenever a file changes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from dynalint.cli.console import fail, note
from dynalint.errors import DynalintError

_PAUSE = 0.5
_CLEAR = "\x1b[2J\x1b[3J\x1b[H"

Snapshot = dict[Path, tuple[int, int]]


def watch(check: Callable[[], object], watched: Callable[[], Iterable[Path]]) -> None:
    """Call `check` now, and again whenever a file in `watched` is changed, created or deleted, until Ctrl-C.

    Errors in a configuration that is being edited are reported, but do not end the loop.
    """
    while True:
        before = _snapshot(watched)
        if sys.stdout is not None and sys.stdout.isatty():
            sys.stdout.write(_CLEAR)
        try:
            check()
        except DynalintError as fault:
            fail(str(fault))
        note("waiting for changes; press Ctrl-C to stop.")
        while _snapshot(watched) == before:
            time.sleep(_PAUSE)


def _snapshot(watched: Callable[[], Iterable[Path]]) -> Snapshot:
    found: Snapshot = {}
    try:
        paths = list(watched())
    except DynalintError:  # the check has already reported it
        return found
    for path in paths:
        try:
            state = path.stat()
        except OSError:
            continue
        found[path] = (state.st_mtime_ns, state.st_size)
    return found
