"""Run several jobs in one cell, each in a process forked from one that is ready for all of them. Standard library only.

What the jobs have in common, the import of the code under check above all, is done once so, and nothing that one of
them does reaches the next. After a job that ends otherwise than it should, or that leaves processes behind, nothing
more is run in the cell: it is for the other end to ask again for the rest, in a new one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..sandbox import syscalls
from .supervisor import run_to_end
from .wire import Reply

_REAP_ATTEMPTS = 20
_REAP_TICK = 0.005


def run_apart(jobs: Sequence[Callable[[Reply], None]], reply: Reply) -> None:
    """Run jobs in their order, the last in this very process, and tell how each before it ended."""
    with contextlib.suppress(OSError):
        syscalls.adopt_orphans()
    for job in jobs[:-1]:
        if not can_fork():
            job(reply)
            return
        status = _forked(job, reply)
        clean = _leaves_nothing()
        reply.send("ended", [status, clean])
        if status or not clean:
            return
    jobs[-1](reply)


def can_fork() -> bool:
    """Whether this process has one thread, as a fork that is to go on must: what the others hold stays locked in it."""
    try:
        return len(list(Path("/proc/self/task").iterdir())) == 1
    except OSError:
        return hasattr(os, "fork") and threading.active_count() == 1


def _forked(job: Callable[[Reply], None], reply: Reply) -> int:
    """Run a job in a process of its own and return the status it ended with, as `waitpid` gives it."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(OSError):
            syscalls.die_with_parent(signal.SIGKILL)
        run_to_end(job, reply)
    status = os.waitpid(child, 0)[1]
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    return status


def _leaves_nothing() -> bool:
    """Whether all the processes that a job has started, and that are this one's now, have ended."""
    for _ in range(_REAP_ATTEMPTS):
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        time.sleep(_REAP_TICK)
    return False
