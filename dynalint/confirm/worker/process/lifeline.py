"""Use the pipe for requests to detect that the client is gone, however it ended. Uses only the standard library."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable, Iterator
from typing import Any


def is_cut(descriptor: int) -> bool:
    """Return whether the other end of a pipe is closed, or False if the system cannot tell."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, events in poll.poll(0))


@contextlib.contextmanager
def ending_with(descriptor: int, leave: Callable[[], None]) -> Iterator[None]:
    """End this process if the lifeline is cut while this context is active, even during a long computation.

    The process cannot read the pipe during that time, so the kernel sends it a signal when the state of the pipe
    changes. `leave` is called first. The signal for a parent's death would not work, because the kernel sends it when
    the thread that started the process ends.
    """
    try:
        import fcntl

        number, asynchronous = signal.SIGIO, os.O_ASYNC  # type: ignore[attr-defined, unused-ignore]
    except (ImportError, AttributeError):
        yield
        return

    def look(*_: Any) -> None:
        if is_cut(descriptor):
            leave()
            os._exit(0)

    before = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    signal.signal(number, look)
    with contextlib.suppress(OSError):
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(descriptor, fcntl.F_SETFL, before | asynchronous)
    look()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETFL, before)
        signal.signal(number, signal.SIG_DFL)
