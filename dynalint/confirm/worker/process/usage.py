"""The time, memory and processes that user code and its descendants use. Uses only the standard library.

Times are estimates for an idle machine. It is the processor time while any thread can run, and the wall-clock time
while all threads sleep. A busy machine therefore does not change verdicts, and code that waits forever still ends.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..sandbox.walls import MOST_PROCESSES, Limits
from .wire import PATIENCE

_TICK = 0.2
_SHARES = 16
# What waiting for events costs, as a fraction of the time.
_NEXT_TO_NOTHING = 0.02
# The maximum number of threads to check for a runnable one. A larger number counts as a flood, and floods have their
# own limit.
_MOST_LOOKED_AT = 256


class ResourceUse:
    """The resources that a process and its descendants use."""

    def __init__(self, child: int, limits: Limits) -> None:
        """Record the state before the process `child` starts."""
        self._child = child
        self._limits = limits
        # Memory that the server already used does not count.
        self._allowed = limits.memory + _resident(child)
        self._threads = _threads_of_all()
        self._worked = 0.0
        self.begin()

    def begin(self) -> None:
        """Restart the time measurement."""
        self._began = self._looked = time.monotonic()
        self._spent = 0.0
        self._active = self._began, self._worked

    @property
    def spent(self) -> float:
        """The seconds spent so far. The time since the last check is wall-clock time."""
        return self._spent + min(time.monotonic() - self._looked, _TICK)

    def excess(self) -> dict[str, Any] | None:
        """Return how the job ends if it exceeds a limit, or None. Most calls skip the check."""
        # A single small file shows a flood of processes long before the next full check is due.
        now = time.monotonic()
        if now <= self._looked + _TICK and _threads_of_all() <= self._threads + MOST_PROCESSES:
            return None
        family = family_of(self._child)
        self._count(family, now)
        for spent, most in (
            (self._spent, self._limits.seconds),
            (now - self._began, PATIENCE * self._limits.seconds),
        ):
            if spent > most:
                return {"outcome": "timeout", "seconds": most}
        if self._limits.idle is not None and self._idle_at(now) > self._limits.idle:
            return {"outcome": "timeout", "seconds": self._spent}
        if len(family) > MOST_PROCESSES:
            return {"outcome": "processes", "count": MOST_PROCESSES}
        if _memory(family, self._allowed) > self._allowed:
            return {"outcome": "memory", "bytes": self._limits.memory}
        return None

    def _idle_at(self, now: float) -> float:
        """Return for how long the processes have used next to no processor time, or 0 if this is unknown."""
        since, worked = self._active
        unknown = not Path(f"/proc/{self._child}/stat").exists()
        if unknown or self._worked - worked > _NEXT_TO_NOTHING * (now - since) + _TICK:
            self._active = now, self._worked
        return now - self._active[0]

    def _count(self, family: Iterable[int], now: float) -> None:
        """Add the time since the last check."""
        passed, self._looked = now - self._looked, now
        before, self._worked = self._worked, _processor_seconds(family)
        busy = self._worked > 0 and _can_run(family)
        self._spent += min(passed, max(self._worked - before, 0.0)) if busy else passed


def _processor_seconds(family: Iterable[int]) -> float:
    """Return the processor time of processes and of their children that have ended, or 0 if unknown."""
    ticks = 0
    for process in family:
        with contextlib.suppress(OSError, ValueError, IndexError):
            ticks += sum(map(int, _fields(Path(f"/proc/{process}/stat"))[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _can_run(family: Iterable[int]) -> bool:
    """Return whether any thread of the processes is running, or waiting for a processor or a disk."""
    threads = (thread for process in family for thread in _threads(process))
    for thread in itertools.islice(threads, _MOST_LOOKED_AT):
        with contextlib.suppress(OSError, IndexError):
            if _fields(thread / "stat")[0] in (b"R", b"D"):
                return True
    return False


def _threads(process: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{process}/task").iterdir())
    except OSError:
        return []


def _fields(stat: Path) -> list[bytes]:
    """Return the fields in a kernel file about a process, starting with its state. The name before it is arbitrary."""
    return stat.read_bytes().rpartition(b")")[2].split()


def _threads_of_all() -> int:
    """Return the number of threads on the whole machine, or 0 if unknown."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/loadavg").read_bytes().split()[3].partition(b"/")[2])
    return 0


def _resident(process: int) -> int:
    """Return the resident memory of a process in bytes, or 0 if the process has ended or this is unknown."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{process}/statm").read_bytes().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def family_of(root: int) -> dict[int, int]:
    """Return the resident memory of `root` and each of its descendants in bytes, by process id."""
    line = _line_of(root)
    if line:
        return {process: _resident(process) for process in line}
    parents: dict[int, list[int]] = {}
    pages: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = _fields(entry / "stat")
            pages[int(entry.name)] = int(fields[21])
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    members = [root]
    for process in members:
        members += parents.pop(process, [])
    unit = os.sysconf("SC_PAGE_SIZE")
    return {process: pages.get(process, 0) * unit for process in members}


def _line_of(process: int) -> list[int]:
    """Return this process's child, its child, and so on. Return an empty list if any of them has siblings.

    Most have no siblings, and scanning all processes on the machine takes much of the time between two checks.
    """
    line: list[int] = []
    try:
        children = _children_of("self")
        while len(children) == 1 and len(line) < MOST_PROCESSES:
            line += children
            children = _children_of(line[-1])
    except (OSError, ValueError):
        return []
    return line if line[:1] == [process] and not children else []


def _children_of(process: int | str) -> list[int]:
    """Return the children of all threads in a process."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return [int(child) for thread in threads for child in (thread / "children").read_bytes().split()]


def _memory(family: dict[int, int], enough: int) -> int:
    """Return the total memory of processes in bytes. It is only exact if it exceeds `enough`.

    Forked processes share most of their memory. If the cheap sum, which counts shared pages repeatedly, is too high,
    the largest processes are measured by their proportional share. That is slow, and a large number of processes has
    its own limit.
    """
    total = sum(family.values())
    if total < enough or len(family) == 1:
        return total
    largest = sorted(family, key=lambda process: family[process], reverse=True)
    return sum(_share(process, family[process]) for process in largest[:_SHARES])


def _share(process: int, resident: int) -> int:
    """Return the memory of a process, with shared pages divided among the processes that share them."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_bytes().splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return resident
