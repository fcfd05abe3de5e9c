"""Interrupt the compiler when its time is used up, so that what it has shown until then counts.

Uses only the standard library.
"""

from __future__ import annotations

import signal
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager


class OutOfTimeError(BaseException):
    """The time for the compiler is used up. The message is the limit in seconds.

    This is a BaseException so that neither torch nor user code handles it.
    """


class Deadline:
    """A limit of `seconds` of processor time, starting now. `passed` indicates whether it has interrupted a run.

    An interrupted run has an OutOfTimeError, and everything that was seen until then.
    """

    def __init__(self, seconds: float, told: float) -> None:
        self.passed = False
        self._end = time.process_time() + seconds
        self._told = told

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Interrupt the body at the deadline. Call this in the main thread."""

        def stop(_number: int, _frame: types.FrameType | None) -> None:
            self.passed = True
            raise OutOfTimeError(f"{self._told:g}")

        if not hasattr(signal, "setitimer"):  # Windows
            yield
            return
        former = signal.signal(signal.SIGPROF, stop)
        signal.setitimer(signal.ITIMER_PROF, max(self._end - time.process_time(), 0.01))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, former)
