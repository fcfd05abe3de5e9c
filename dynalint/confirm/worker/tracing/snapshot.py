"""A fork of the process when a call is made, and the code that runs in it.

    program -- fork -- between -- fork -- snapshot -- fork -- supervisor -- fork -- cell
    continues          ends at            waits for its       watches               confirms in
                       once               turn, stores                              the sandbox
                                          the evidence

The intermediate process hides the snapshot from the program. The snapshot is not the program's child, so the program
gets no signal when it ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import platform
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import torch

from ..process.supervisor import JobRules, guarded, leave_descriptors
from ..process.wire import Reply, pack
from ..sandbox.readable import ReadableFolders
from ..sandbox.walls import Limits
from .session import Session, content_hash

_NICENESS = 5
_LEAST_SECONDS = 1.0
_CLEANING_SECONDS = 2.0
_PARTING_SECONDS = 10.0
_PARTING_TICK = 0.0005
FORMAT = 1


@dataclass(frozen=True)
class Snapshot:
    """A call to confirm.

    `key` identifies its evidence, and `kind` is the same for all calls to the same subject. `target` is the callable,
    and `text` describes the call.
    """

    session: Session
    kind: str
    key: str
    target: dict[str, str]
    text: str
    subject: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def take(snapshot: Snapshot, slot: int, switch_off: Callable[[], None]) -> None:
    """Start a snapshot that confirms the call in the background. It holds `slot`, which is closed here.

    Raises OSError if the system cannot fork.
    """
    try:
        between = _fork()
        if between == 0:
            _part(partial(_be_snapshot, snapshot, slot), slot, switch_off)
        _reap(between)
    finally:
        os.close(slot)


def _reap(between: int) -> None:
    """Wait for the intermediate process, which has very little to do. Kill it if it hangs.

    It hangs if another thread in the program held a lock during the fork, because nothing releases the lock in the
    fork.
    """
    end = time.monotonic() + _PARTING_SECONDS
    with contextlib.suppress(ChildProcessError):  # It was reaped by a program that waits for all its children.
        while os.waitpid(between, os.WNOHANG)[0] == 0:
            if time.monotonic() > end:
                os.kill(between, signal.SIGKILL)
                os.waitpid(between, 0)
                raise OSError("the fork of the process hung")
            time.sleep(_PARTING_TICK)


def _fork() -> int:
    """Fork like `os.fork`, but without the warning about threads, which this code can handle."""
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    process = int(ctypes.PyDLL(None).fork())
    if process == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    if process < 0:
        raise OSError("the process cannot be forked")
    return process


def _part(act: Callable[[], None], slot: int, switch_off: Callable[[], None]) -> NoReturn:
    """Act as the intermediate process: fork again, record the snapshot's process id, and end. Never returns."""
    try:
        switch_off()
        this = os.getpid()
        child = _fork()
        if child == 0:
            while os.getppid() == this:
                time.sleep(0.001)
            act()
        os.pwrite(slot, str(child).encode(), 0)
    finally:
        os._exit(0)


def _be_snapshot(snapshot: Snapshot, slot: int) -> None:
    """Detach from the program, wait for its turn, and confirm the call in the remaining time."""
    os.setsid()
    _forget_signals()
    sys.settrace(None)
    sys.setprofile(None)
    leave_descriptors(slot)
    gc.disable()
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    session = snapshot.session
    with session.turn():
        seconds = min(session.seconds, session.left - _CLEANING_SECONDS)
        if seconds < _LEAST_SECONDS:
            session.note(left=snapshot.target["qualname"])
            return
        start = time.monotonic()
        try:
            _confirm(snapshot, seconds)
        except Exception as error:  # noqa: BLE001 - a snapshot has no caller to raise to
            session.note(failed=f"{type(error).__name__}: {error}")
        finally:
            session.spend(time.monotonic() - start)


def _forget_signals() -> None:
    with contextlib.suppress(ValueError):
        signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)


def _confirm(snapshot: Snapshot, seconds: float) -> None:
    """Run the call in a cell and store the result."""
    session, start = snapshot.session, time.monotonic()
    folder = Path(tempfile.mkdtemp(dir=session.folder, prefix="snapshot-"))
    try:
        record = _messages(snapshot, folder, seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    parts = record["parts"]
    if "raises" in parts:
        session.note(raises=snapshot.target["qualname"], error=parts["raises"])
        return
    spans, files = parts.pop("spans", None), parts.pop("files", [])
    changed = [path for path in files if Path(path).stat().st_mtime > session.started]
    if changed:
        # The program may have imported the previous version.
        reason = f"{Path(changed[0]).name} has changed since the command was started"
        session.note(declined=snapshot.target["qualname"], reason=reason)
        return
    if spans is not None:
        evidence = {
            "format": FORMAT,
            "kind": snapshot.kind,
            "target": snapshot.target,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
            "files": {path: content_hash(path) for path in files},
            "spans": spans,
            "record": record,
        }
        session.keep(snapshot.key, evidence)
    parts_sent = {name: parts[name] for name in ("inputs", "problem") if name in parts}
    session.note(
        confirmed=snapshot.target["qualname"],
        key=None if spans is None else snapshot.key,
        record={**record, "parts": parts_sent},
        seconds=time.monotonic() - start,
    )


def _messages(snapshot: Snapshot, folder: Path, seconds: float) -> dict[str, Any]:
    """Return the cell's messages, in the form used by `record_of`."""
    source, sink = os.pipe()
    supervisor = _fork()
    if supervisor == 0:
        _supervise(snapshot, folder, seconds, sink)
    os.close(sink)
    parts: dict[str, Any] = {}
    stage, ending = "starting", {"outcome": "supervisor"}
    with os.fdopen(source, "rb") as messages:
        for line in messages:
            message = json.loads(line)
            if "end" in message:
                ending = message["end"]
            elif message["kind"] == "part":
                parts[message["value"][0]] = message["value"][1]
            elif message["kind"] == "stage":
                stage = message["value"]
    os.waitpid(supervisor, 0)
    return {"outcome": ending["outcome"], "ending": ending, "stage": stage, "parts": parts}


def _supervise(snapshot: Snapshot, folder: Path, seconds: float, sink: int) -> NoReturn:
    """Act as the supervisor, which has some of the cell's restrictions, so that only the pipe leads outside."""
    session = snapshot.session
    try:
        with os.fdopen(sink, "wb", buffering=0) as stream:

            def say(message: dict[str, Any]) -> None:
                data = memoryview(pack(message))
                while data:
                    data = data[stream.write(data) :]

            limits = Limits(seconds, session.memory, int(4 * seconds) + 1)
            job, walls = partial(_run, snapshot, seconds), session.namespaces
            reading = ReadableFolders((*session.roots, str(Path.cwd())), session.homes)
            rules = JobRules(limits, reading, walls, "cpu", session.required, abandoned=session.is_over)
            say({"end": guarded(job, folder, rules, say)})
    finally:
        os._exit(0)


def _run(snapshot: Snapshot, seconds: float, reply: Reply) -> None:
    """Confirm calls as the worker does, but with the objects in memory."""
    # Use a single thread, because the program's thread pool does not survive a fork.
    torch.set_num_threads(1)
    gc.freeze()
    gc.enable()
    reply.stage("running the call")
    raised = _raised(snapshot)
    if raised is not None:
        reply.part("raises", raised)
        return
    reply.stage("importing torch's compiler")
    from .live import run_call

    call = (snapshot.args, snapshot.kwargs)
    run_call(snapshot.subject, call, snapshot.text, snapshot.target, snapshot.session.roots, seconds, reply)


def _raised(snapshot: Snapshot) -> str | None:
    """Try the call in another fork, because calls that raise are not confirmed. Return the exception, if any."""
    source, sink = os.pipe()
    trial = os.fork()
    if trial == 0:
        try:
            snapshot.subject(*snapshot.args, **snapshot.kwargs)
        except Exception as error:  # noqa: BLE001 - any exception
            os.write(sink, f"{type(error).__name__}: {error}".encode()[: select.PIPE_BUF])
        finally:
            os._exit(0)
    os.close(sink)
    with os.fdopen(source, "rb") as stream:
        raised = stream.read().decode(errors="replace")
    os.waitpid(trial, 0)
    return raised or None
