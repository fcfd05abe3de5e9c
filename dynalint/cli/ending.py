"""Handle interruption by Ctrl-C and SIGTERM in the same way in every command."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

INTERRUPTED = 130

# `timeout` and some shells send a signal to both a process and its group. Signals that are this close together count as
# one.
_ONE_SIGNAL_SECONDS = 0.5


@contextlib.contextmanager
def interruptible() -> Iterator[list[float]]:
    """Handle Ctrl-C and SIGTERM: the first one raises KeyboardInterrupt, and a later one ends the process.

    The context manager returns a list to which the time of the first signal is added. The workers notice that their
    parent is gone and clean up, so ending the process leaves nothing behind. Outside the main thread, signals are not
    handled.
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

    # Shells make background jobs ignore SIGINT, and this must stay so.
    in_background = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    handled = [signal.SIGTERM, *([] if in_background else [signal.SIGINT])]
    former = {number: signal.signal(number, interrupt) for number in handled}
    try:
        yield first
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
