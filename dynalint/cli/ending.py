"""How a command ends before its time: Ctrl-C and SIGTERM do the same, for every command."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

INTERRUPTED = 130

# `timeout` and some shells send a signal to a process and to its group: that is one.
_ONE_SIGNAL_SECONDS = 0.5


@contextlib.contextmanager
def interruptible() -> Iterator[list[float]]:
    """Meanwhile the first Ctrl-C or SIGTERM raises KeyboardInterrupt, and one that comes later ends the process.

    Nothing is left behind then either: the workers notice that they are alone, and clean up. In other threads than the
    main one nothing is changed. Yields what holds the time of the first signal, once it has come.
    """
    first: list[float] = []
    if threading.current_thread() is not threading.main_thread():
        yield first
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if not first:
            first.append(now)
            raise KeyboardInterrupt
        if now - first[0] > _ONE_SIGNAL_SECONDS:
            os._exit(INTERRUPTED)

    # A shell that starts something in the background has it hear no Ctrl-C.
    in_background = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    heard = [signal.SIGTERM, *([] if in_background else [signal.SIGINT])]
    former = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield first
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
