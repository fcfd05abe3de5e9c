"""Run more than one job in a cell, each in a fork of a process that is prepared for all of them.

Uses only the standard library.

The work that all jobs need, in particular importing the code being checked, is done only once, and no job can affect
the next. If a job ends abnormally or leaves processes behind, the cell does not run any more jobs. The client then
sends the remaining jobs again for a new cell.
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

# The names of threads that their libraries stop before a fork, such as those of allocators. Importing pyarrow, which
# pandas and others do, starts one.
_PREPARED_FOR_FORKS = frozenset(("jemalloc_bg_thd",))
_REAP_ATTEMPTS = 20
_REAP_TICK = 0.005


def run_apart(jobs: Sequence[Callable[[Reply], None]], reply: Reply, learn: Callable[[int], None]) -> None:
    """Run `jobs` in order, the last one in this process, and report how each of the others ended.

    After each job that ended normally, `learn` is called with its number, to do what later jobs may need too.
    """
    with contextlib.suppress(OSError):
        syscalls.adopt_orphans()
    for number, job in enumerate(jobs[:-1]):
        if not can_fork():
            job(reply)
            return
        status = _forked(job, reply)
        clean = _leaves_nothing()
        reply.send("ended", [status, clean])
        if status or not clean:
            return
        learn(number)
    jobs[-1](reply)


def can_fork() -> bool:
    """Return whether a fork of this process is safe. A fork cannot release locks that other threads held."""
    own = str(threading.get_native_id())
    try:
        others = [one for one in Path("/proc/self/task").iterdir() if one.name != own]
        return all((one / "comm").read_text().strip() in _PREPARED_FOR_FORKS for one in others)
    except OSError:
        return hasattr(os, "fork") and threading.active_count() == 1


def _forked(job: Callable[[Reply], None], reply: Reply) -> int:
    """Run a job in a separate process. Return its exit status, as from `waitpid`."""
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
    """Return whether all processes that a job left behind have ended. This process has adopted them."""
    for _ in range(_REAP_ATTEMPTS):
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        time.sleep(_REAP_TICK)
    return False
