"""Measure and limit the processor time that harvesting uses. Uses only the standard library."""

from __future__ import annotations

import contextlib
import os
import signal
import types
from collections.abc import Iterator


def seconds_used() -> float:
    """Return the processor time of this process and of the children that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Interrupt the body with TimeoutError after `seconds` of this process's processor time."""

    def interrupt(_number: int, _frame: types.FrameType | None) -> None:
        raise TimeoutError(f"it took more than {seconds:g} s")

    former = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)
