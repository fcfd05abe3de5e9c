"""Checking again and again, whenever a file has changed."""

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
    """Call `check`, and again whenever one of the files that `watched` names was changed, came or went, until Ctrl-C.

    What is wrong with a configuration that somebody is editing is said, and waited out.
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
    except DynalintError:  # said by the check itself
        return found
    for path in paths:
        try:
            state = path.stat()
        except OSError:
            continue
        found[path] = (state.st_mtime_ns, state.st_size)
    return found
