"""Run a command whose processes confirm the calls that they make. See `dynalint/confirm/worker/tracing`."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynalint.confirm.client import homes
from dynalint.confirm.evidence import EvidenceStore
from dynalint.confirm.options import ConfirmOptions, Target
from dynalint.confirm.results import TargetResult, result_of
from dynalint.confirm.temporary import TemporaryFolder, remove_abandoned
from dynalint.confirm.wording import problem_text
from dynalint.errors import DynalintError

if TYPE_CHECKING:
    from dynalint.confirm.worker.tracing.session import Session

_HOOK = Path(__file__).with_name("hook")
_POLL = 0.05
_GRACE_SECONDS = 5.0
_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
_ABANDON_SECONDS = 1.0
# Two signals within this time count as one, because one of them is often caused by the other.
_ONE_SIGNAL_SECONDS = 0.5


@dataclass(frozen=True)
class Traced:
    """The outcome of running a command, and of confirming the calls that it made.

    `code` is the command's own exit code. `problems` lists the calls that could not be confirmed, with reasons.
    `raising` lists the calls that raise an exception themselves, and `left` lists the calls that were not confirmed in
    time. `foreign` lists the packages outside the user's code whose modules were called, and `failures` lists errors in
    tracing itself. `processes` is the number of processes that imported torch, and `known` is the number of kinds of
    calls that already had evidence. `seconds` is the part of the budget that was used.
    """

    code: int
    confirmed: tuple[TargetResult, ...]
    problems: tuple[tuple[str, str], ...]
    raising: tuple[str, ...]
    left: tuple[str, ...]
    foreign: tuple[str, ...]
    failures: tuple[str, ...]
    processes: int
    known: int
    seconds: float


def trace(
    command: Sequence[str], options: ConfirmOptions, budget: float, progress: Callable[[str], None] | None = None
) -> Traced:
    """Run a command, wait for its pending confirmations as long as the budget allows, and return the results.

    Raises:
        DynalintError: If the command cannot be run, or this system cannot fork processes.
    """
    if not hasattr(os, "fork"):
        raise DynalintError("dynalint trace needs a system that can fork processes; this one cannot.")
    from dynalint.confirm.worker.sandbox.walls import usable_namespaces
    from dynalint.confirm.worker.tracing.session import VARIABLE, Session

    assert options.cache is not None
    stock = EvidenceStore(options.cache)
    stock.discard_stale()
    remove_abandoned()
    temporary = TemporaryFolder()
    folder, session = temporary.path, None
    try:
        settings = {
            "evidence": str(stock.folder),
            "roots": [str(root) for root in options.own_roots()],
            "homes": homes(),
            "budget": budget,
            "seconds": options.timeout,
            "memory": options.memory,
            "namespaces": usable_namespaces(folder),
            "required": options.mode != "always",
            "started": time.time(),
        }
        session = Session.create(folder, settings)
        known = stock.keys()
        for kind, key in known:
            session.claim(kind, key)
        search = os.pathsep.join(filter(None, (str(_HOOK), os.environ.get("PYTHONPATH"))))
        code, interrupted = _run(command, {**os.environ, "PYTHONPATH": search, VARIABLE: str(folder)})
        end = time.monotonic() + (0.0 if interrupted else session.left + _GRACE_SECONDS)
        while session.waiting():
            if time.monotonic() > end:
                _abandon(session)
                break
            if progress is not None:
                progress("confirming the last calls")
            time.sleep(_POLL)
        return _traced(code, list(session.notes()), stock, len(known), session.spent)
    except BaseException:
        if session is not None:
            _abandon(session)
        raise
    finally:
        temporary.remove()


def _abandon(session: Session) -> None:
    """Stop pending confirmations, and wait until they no longer use the folder."""
    session.abandon()
    end = time.monotonic() + _ABANDON_SECONDS
    while session.waiting() and time.monotonic() < end:
        time.sleep(_POLL)


def _run(command: Sequence[str], environment: dict[str, str]) -> tuple[int, bool]:
    """Run a command in place of this process. Return its exit code, and whether a terminating signal came."""
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise DynalintError(f"cannot run {command[0]}: {error.strerror}.") from error
    with _signals_left_to(process) as received:
        code = process.wait()
    return (code if code >= 0 else 128 - code), bool(received)


@contextlib.contextmanager
def _signals_left_to(process: subprocess.Popen[bytes]) -> Iterator[list[float]]:
    """Forward terminating signals to the command, which may handle them. A second signal kills it.

    Yields the times of the signals. If the user presses Ctrl-C at a terminal, the command receives the signal directly,
    so it is not forwarded.
    """
    received: list[float] = []

    def hand_on(number: int, _: object) -> None:
        received.append(time.monotonic())
        if received[-1] - received[0] > _ONE_SIGNAL_SECONDS:
            process.kill()
        elif number != signal.SIGINT or not _is_in_foreground():
            process.send_signal(number)

    numbers = [getattr(signal, name) for name in _ENDING if hasattr(signal, name)]
    former = {number: signal.signal(number, hand_on) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _is_in_foreground() -> bool:
    """Return whether pressing Ctrl-C at the terminal reaches both this process and the command."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def problems_of(notes: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Return the calls that were seen but not confirmed, with the reasons, based on a session's notes."""
    found: dict[tuple[str, str], None] = {}
    for note in notes:
        if "declined" in note:
            found[note["declined"], note["reason"]] = None
        elif "confirmed" in note and note["key"] is None:
            target = Target(Path(), "", note["confirmed"])
            problem = result_of(target, "?", note["record"], {}).problem
            assert problem is not None
            found[note["confirmed"], problem_text(problem, target, "?")] = None
    return tuple(found)


def _traced(code: int, notes: list[dict[str, Any]], stock: EvidenceStore, known: int, seconds: float) -> Traced:
    keys = [note["key"] for note in notes if note.get("key") is not None]
    return Traced(
        code=code,
        confirmed=tuple(found for key in keys if (found := stock.result(key, {})) is not None),
        problems=problems_of(notes),
        raising=tuple(f"{note['raises']} ({note['error']})" for note in notes if "raises" in note),
        left=tuple(note["left"] for note in notes if "left" in note),
        foreign=tuple(dict.fromkeys(note["foreign"] for note in notes if "foreign" in note)),
        failures=tuple(dict.fromkeys(note["failed"] for note in notes if "failed" in note)),
        processes=sum("torch" in note for note in notes),
        known=known,
        seconds=seconds,
    )
