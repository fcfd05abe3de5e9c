"""Measure and limit the time that harvesting uses. Uses only the standard library."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import types
from collections.abc import Iterator
from pathlib import Path

_TICK = 0.5


class _Pause:
    """The time that `unhurried` code has waited, and whether such code is running."""

    seconds = 0.0
    now = False


def seconds_used() -> float:
    """Return the processor time of this process and of the children that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _waited() -> float:
    """Return the seconds for which this thread neither ran nor waited for a processor, counted from any point in time.

    Without the kernel's counters, this is the time in which this process used no processor.
    """
    try:
        ran, queued, _ = Path("/proc/thread-self/schedstat").read_bytes().split()
    except (OSError, ValueError):
        return time.monotonic() - time.process_time()
    return time.monotonic() - (int(ran) + int(queued)) / 1e9


@contextlib.contextmanager
def unhurried() -> Iterator[None]:
    """Let the body wait for as long as it takes. Its time does not count for `limited` code around it."""
    before, _Pause.now = _waited(), True
    try:
        yield
    finally:
        _Pause.seconds += _waited() - before
        _Pause.now = False


@contextlib.contextmanager
def limited(seconds: float, waiting: float) -> Iterator[None]:
    """Interrupt the body with TimeoutError after `seconds` of processor time, or if it waits for longer than `waiting`.

    Code waits if it sleeps, or if another process or thread has to do something first, but not while the machine is
    busy. Call this in the main thread.
    """

    def interrupt(_number: int, _frame: types.FrameType | None) -> None:
        raise TimeoutError(f"it took more than {seconds:g} s")

    def look(_number: int, _frame: types.FrameType | None) -> None:
        if not _Pause.now and _waited() - _Pause.seconds - before > waiting:
            raise TimeoutError(f"it waited for more than {waiting:g} s")

    before = _waited() - _Pause.seconds
    former = [signal.signal(signal.SIGPROF, interrupt), signal.signal(signal.SIGALRM, look)]
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, _TICK, _TICK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        for number, handler in zip((signal.SIGPROF, signal.SIGALRM), former, strict=True):
            signal.signal(number, handler)
