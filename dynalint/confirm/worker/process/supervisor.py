"""Run a job in a separate process, watch it, and report how it ended. Uses only the standard library.

The server forks a supervisor for each job. The supervisor forks the process that runs user code, and stays outside that
process's sandbox. A job can have multiple parts (see `batch`), each with the full time limit. The supervisor only
relays lines from a private pipe that start with the job's token, so user code cannot forge messages by writing to every
descriptor it finds.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ..sandbox import syscalls
from ..sandbox.readable import ReadableFolders
from ..sandbox.walls import Limits, enclose, set_environment, set_out
from .usage import ResourceUse
from .wire import LONGEST_LINE, MOST_BYTES, MOST_VALUES, Reply, unpack, values_in

Message = dict[str, Any]
Job = Callable[[Reply], None]

_CHANNEL_CLOSED = 97
_CHUNK = 1 << 16
_TICK = 0.05


@dataclass(frozen=True)
class JobRules:
    """The rules for a request that has `jobs` jobs.

    `namespaces` are the flags for `unshare` that work here. If `required` is true, user code runs only if the sandbox
    works. Otherwise, the outcome is `refused`. `abandoned` returns whether the client is gone.
    """

    limits: Limits
    reading: ReadableFolders
    namespaces: int
    device: str
    required: bool
    jobs: int = 1
    abandoned: Callable[[], bool] = bool


@dataclass(frozen=True)
class Cell:
    """The folders and rules for a request."""

    scratch: Path
    outside: Path
    rules: JobRules


def guarded(job: Job, folder: Path, rules: JobRules, forward: Callable[[Message], None]) -> Message:
    """Run `job` in a cell in an empty folder. See `Cell` and `run_guarded`."""
    scratch, outside = folder / "scratch", folder / "outside"
    scratch.mkdir()
    listener = set_out(outside)
    try:
        return run_guarded(job, Cell(scratch, outside, rules), forward)
    finally:
        if listener is not None:
            listener.close()


def run_guarded(job: Job, cell: Cell, forward: Callable[[Message], None]) -> Message:
    """Run `job` in the sandbox, forward its messages, and return how it ended. Called in the supervisor.

    If there is more than one job, this returns how the last job that ran ended, and forwards `{"end": ..., "more":
    True}` for each earlier job. The time that a job spent is forwarded before its end.
    """
    with contextlib.suppress(OSError):
        syscalls.adopt_orphans()
    with contextlib.suppress(OSError, AttributeError):
        # Only root may do this, and root is the only user whose processes the kernel does not limit. The supervisor
        # must get processor time no matter how many processes there are.
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    if cell.rules.namespaces:
        syscalls.unshare(cell.rules.namespaces)
    token = secrets.token_hex(16)
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(source)
        _child(job, cell, Reply(sink, token))
    os.close(sink)
    try:
        uses = ResourceUse(child, cell.rules.limits)
        ending = _watch(child, source, cell.rules, _Course(token, cell.rules, uses, forward))
        forward({"kind": "spent", "value": round(uses.spent, 2)})
        return ending
    finally:
        _kill_all(child)
        os.close(source)


def run_to_end(job: Job, reply: Reply) -> NoReturn:
    """Run a job as the leader of a new session, report its end or exception, and end this process."""
    status = 1
    try:
        os.setsid()
        job(reply)
        reply.send("done", True)
        status = 0
    except BaseException as error:  # noqa: BLE001 - user code may raise anything
        status = _CHANNEL_CLOSED if reply.broken else _send_error(reply, error)
    finally:
        os._exit(status)


def _child(job: Job, cell: Cell, reply: Reply) -> NoReturn:
    """Enter the sandbox, run the job, and end the process."""

    def behind_walls(reply: Reply) -> None:
        with contextlib.suppress(OSError):
            syscalls.die_with_parent(signal.SIGKILL)
        leave_descriptors(reply.descriptor)
        rules, apart = cell.rules, bool(cell.rules.namespaces)
        enclosure = enclose(
            cell.scratch, cell.outside, rules.limits, rules.reading, namespaces=apart, device=rules.device
        )
        set_environment(cell.scratch)
        reply.send("sandbox", {"layers": list(enclosure.layers), "escape": enclosure.escape})
        reply.enclosed = enclosure.escape is None
        if reply.enclosed or not rules.required:
            job(reply)

    run_to_end(behind_walls, reply)


def _send_error(reply: Reply, error: BaseException) -> int:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    with contextlib.suppress(OSError):
        reply.send("failed", f"{type(error).__name__}: {error}{place}")
    return 1


def leave_descriptors(keep: int) -> None:
    """Close all descriptors except `keep`, and redirect the standard streams to /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    limit = os.sysconf("SC_OPEN_MAX")
    os.closerange(3, keep)
    os.closerange(keep + 1, limit if 0 < limit < 1 << 20 else 1 << 16)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout, sys.stderr = (os.fdopen(stream, "w", closefd=False) for stream in (1, 2))


def _watch(child: int, source: int, rules: JobRules, course: _Course) -> Message:
    """Relay messages until the process ends or exceeds its time or memory limit."""
    server, uses = os.getppid(), course.uses
    buffer = b""
    while True:
        chunk = b""
        if select.select([source], [], [], _TICK)[0]:
            chunk = os.read(source, _CHUNK)
            *lines, buffer = (buffer + chunk).split(b"\n")
            course.take(lines)
            if course.over:
                return course.ending or _death(0)
            if course.is_flooded(buffer):
                return {"outcome": "flood", "bytes": MOST_BYTES}
            if not chunk:
                time.sleep(_TICK / 10)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if os.getppid() != server or rules.abandoned():
            return {"outcome": "timeout", "seconds": rules.limits.seconds}
        excess = uses.excess()
        if excess is not None:
            return excess
    # Processes that were left behind may still write, and the pipe only ends when they do.
    _kill_all(child)
    while not course.is_flooded(buffer) and (chunk := os.read(source, _CHUNK)):
        *lines, buffer = (buffer + chunk).split(b"\n")
        course.take(lines)
    course.take([buffer])
    if course.is_flooded(b""):
        return {"outcome": "flood", "bytes": MOST_BYTES}
    return course.ending or _death(status)


class _Course:
    """The state of the running job: the resources it uses, how it ended, and whether it was the last job to run here.

    User code can find the token and send any message. Only the first message, which describes the sandbox, is certain
    not to be forged.
    """

    def __init__(self, token: str, rules: JobRules, uses: ResourceUse, forward: Callable[[Message], None]) -> None:
        self.uses = uses
        self.ending: Message | None = None
        self.over = False
        self._token = token
        self._required = rules.required
        self._forward = forward
        self._enclosed = False
        self._left = rules.jobs
        self._bytes = self._values = 0

    def is_flooded(self, begun: bytes) -> bool:
        """Return whether more was sent than an answer may contain. `begun` is an incomplete line."""
        return len(begun) > LONGEST_LINE or self._bytes > MOST_BYTES or self._values > MOST_VALUES

    def take(self, lines: Iterable[bytes]) -> None:
        """Forward the genuine messages in `lines`, and record how the job ended."""
        for line in lines:
            if self.over or self.is_flooded(line):
                return
            message = unpack(line, self._token)
            if message is None:
                continue
            self._bytes += len(line)
            self._values += values_in(line)
            kind, value = message
            if not self._enclosed:
                self._begin(kind, value)
            elif kind == "done":
                self.ending = self.ending or {"outcome": "done"}
            elif kind == "failed":
                self.ending = {"outcome": "failed", "reason": str(value)}
            elif kind == "ended":
                self._go_on(value)
            elif kind in ("part", "stage"):
                self._forward({"kind": kind, "value": value})

    def _begin(self, kind: str, value: Any) -> None:
        """Record the sandbox, or why it could not be set up."""
        if kind == "sandbox":
            self._enclosed = True
            self._forward({"kind": kind, "value": value})
            if self._required and value["escape"] is not None:
                self.ending, self.over = {"outcome": "refused", "reason": f"code could {value['escape']}"}, True
        elif kind == "failed":
            self.ending = {"outcome": "failed", "reason": str(value)}

    def _go_on(self, value: Any) -> None:
        """Continue with the next job, unless this one ended abnormally."""
        fits = isinstance(value, list) and len(value) == 2 and isinstance(value[0], int) and 0 <= value[0] < 1 << 16
        status, clean = value if fits else (1 << 8, False)
        self.ending = self.ending or _death(status)
        self._left -= 1
        self.over = bool(status) or clean is not True or self._left < 1
        if not self.over:
            self._forward({"kind": "spent", "value": round(self.uses.spent, 2)})
            self._forward({"end": self.ending, "more": True})
            self.uses.begin()
            self.ending = None
            self._bytes = self._values = 0


def _death(status: int) -> Message:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number in (signal.SIGXCPU, signal.SIGKILL):
            # The kernel sends these at the hard limit for processor time, and when the machine is out of memory.
            return {"outcome": "killed", "signal": signal.Signals(number).name}
        name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
        return {"outcome": "signal", "signal": name}
    code = os.WEXITSTATUS(status)
    return {"outcome": "channel"} if code == _CHANNEL_CLOSED else {"outcome": "exit", "status": code}


def _kill_all(child: int) -> None:
    """Kill the process group of `child` and everything that it left behind, and reap it."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        # Most jobs leave nothing behind, and scanning all processes takes as long as starting one.
        if _reaped():
            return
        for process in {child, *_children()}:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)


def _reaped() -> bool:
    """Reap all children that have ended. Return whether none are left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def _children() -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1]) == os.getpid():
                found.append(int(entry.name))
    return found
