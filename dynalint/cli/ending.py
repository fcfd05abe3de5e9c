"""Interruption by Ctrl-C and SIGTERM, which every command handles alike."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

INTERRUPTED = 130

# `timeout` and some shells signal both a process and its group. Signals this close together count as one.
_ONE_SIGNAL_SECONDS = 0.5


@contextlib.contextmanager
def interruptible() -> Iterator[list[float]]:
    """Context in which the first Ctrl-C or SIGTERM raises KeyboardInterrupt and a later one ends the process.

    The workers notice that their parent has gone and clean up, so ending the process leaves nothing behind. Outside the
    main thread, this does nothing. Yields a list that receives the time of the first signal.
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

    # Shells make background jobs ignore SIGINT; keep it that way.
    in_background = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    heard = [signal.SIGTERM, *([] if in_background else [signal.SIGINT])]
    former = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield first
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
