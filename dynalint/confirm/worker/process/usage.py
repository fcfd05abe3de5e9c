"""What user code uses up: time, memory and processes, over all that it has started. Standard library only.

Time is what the code would have taken on a machine of its own: processor time while any of its threads can run, time
by the clock while all of them sleep. So a busy machine changes no verdict, and code that waits for ever still ends.
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
# So many threads are looked at to see whether one can run: a flood of them is another matter.
_MOST_LOOKED_AT = 256


class Uses:
    """What a process and all that it has started use up together."""

    def __init__(self, child: int, limits: Limits) -> None:
        """Take note of how things stand before the process `child` begins."""
        self._child = child
        self._limits = limits
        # What the server had in memory already is no fault of this process.
        self._allowed = limits.memory + _resident(child)
        self._threads = _threads_of_all()
        self._worked = 0.0
        self.begin()

    def begin(self) -> None:
        """Count the time from now on."""
        self._began = self._looked = time.monotonic()
        self._spent = 0.0

    @property
    def spent(self) -> float:
        """The seconds spent so far; what came after the last look counts by the clock."""
        return self._spent + min(time.monotonic() - self._looked, _TICK)

    def excess(self) -> dict[str, Any] | None:
        """Return how the job ends for what it uses, None where that is within the limits; now and then only."""
        # One small file tells of a flood of processes long before the next look at all of them is due.
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
        if len(family) > MOST_PROCESSES:
            return {"outcome": "processes", "count": MOST_PROCESSES}
        if _memory(family, self._allowed) > self._allowed:
            return {"outcome": "memory", "bytes": self._limits.memory}
        return None

    def _count(self, family: Iterable[int], now: float) -> None:
        """Add the time since the last look."""
        passed, self._looked = now - self._looked, now
        before, self._worked = self._worked, _processor_seconds(family)
        busy = self._worked > 0 and _can_run(family)
        self._spent += min(passed, max(self._worked - before, 0.0)) if busy else passed


def _processor_seconds(family: Iterable[int]) -> float:
    """Return the processor time of processes and of their children that have ended; 0 where nobody tells."""
    ticks = 0
    for process in family:
        with contextlib.suppress(OSError, ValueError, IndexError):
            ticks += sum(map(int, _fields(Path(f"/proc/{process}/stat"))[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _can_run(family: Iterable[int]) -> bool:
    """Whether any thread of some processes runs, waits for a processor, or for a disk."""
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
    """Return the fields of a file of the kernel's on a process, from its state on; names may hold anything."""
    return stat.read_bytes().rpartition(b")")[2].split()


def _threads_of_all() -> int:
    """Return how many threads the whole machine has, 0 where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/loadavg").read_bytes().split()[3].partition(b"/")[2])
    return 0


def _resident(process: int) -> int:
    """Return the bytes that a process has in memory, 0 where it is gone or the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{process}/statm").read_bytes().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def family_of(root: int) -> dict[int, int]:
    """Return the bytes resident in `root` and in each of its descendants, by process."""
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
    """Return a child of this process, its child, and so on, where none has another; nothing where nobody tells.

    Most have none. To look through all processes of the machine takes a good part of the time between two looks.
    """
    line: list[int] = []
    try:
        children = _children_told("self")
        while len(children) == 1 and len(line) < MOST_PROCESSES:
            line += children
            children = _children_told(line[-1])
    except (OSError, ValueError):
        return []
    return line if line[:1] == [process] and not children else []


def _children_told(process: int | str) -> list[int]:
    """Return the children of all threads of a process."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return [int(child) for thread in threads for child in (thread / "children").read_bytes().split()]


def _memory(family: dict[int, int], enough: int) -> int:
    """Return the bytes of memory that processes hold together; exact only from `enough` bytes on.

    Forked processes share most of what they hold: where the cheap sum, which counts shared pages in each, is too
    much, the largest are counted again by their share. That takes a while for each, and many are a flood of their own.
    """
    total = sum(family.values())
    if total < enough or len(family) == 1:
        return total
    largest = sorted(family, key=lambda process: family[process], reverse=True)
    return sum(_share(process, family[process]) for process in largest[:_SHARES])


def _share(process: int, resident: int) -> int:
    """Return the memory of a process with shared pages divided among those that share them."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_bytes().splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return resident
