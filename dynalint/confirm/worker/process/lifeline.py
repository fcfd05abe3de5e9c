"""The pipe that requests come through tells when whoever asks is gone, however it ended. Standard library only."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable, Iterator
from typing import Any


def is_cut(descriptor: int) -> bool:
    """Whether nobody holds the other end of a pipe any more; False where the system does not tell."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, events in poll.poll(0))


@contextlib.contextmanager
def ending_with(descriptor: int, leave: Callable[[], None]) -> Iterator[None]:
    """Meanwhile end this process, which does something long and looks at no pipe, once the lifeline is cut.

    `leave` is called before. The kernel sends a signal when something happens to the pipe. To be told when the parent
    ends would not do: the kernel takes the thread that has started a process for its parent.
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
