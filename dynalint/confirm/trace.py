"""Run a command whose processes confirm the calls they make; see `dynalint/confirm/worker/tracing`."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynalint.confirm.client import homes
from dynalint.confirm.evidence import Stock
from dynalint.confirm.options import ConfirmOptions, Target
from dynalint.confirm.testimony import Testimony, testify
from dynalint.confirm.wording import problem_text
from dynalint.errors import DynalintError

_HOOK = Path(__file__).with_name("hook")
_POLL = 0.05
_GRACE_SECONDS = 5.0
_FORWARDED = ("SIGTERM", "SIGHUP")


@dataclass(frozen=True)
class Traced:
    """What became of a command and of the calls it made.

    `code` is the command's own exit code. `problems` are the names of what was not confirmed, with reasons, `raising`
    those of calls that end in an exception of their own, `left` those that no time was left for, `foreign` the packages
    whose modules were called and are not the user's own, `failures` what went wrong in tracing. `processes` counts
    those that imported torch, `known` the kinds of calls that there was evidence of before. `seconds` is what was
    spent of the budget.
    """

    code: int
    confirmed: tuple[Testimony, ...]
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
    """Run a command, wait for what it left to confirm as long as the budget lasts, and return what was found.

    Raises:
        DynalintError: the command cannot be run, or this system cannot fork processes.
    """
    if not hasattr(os, "fork"):
        raise DynalintError("dynalint trace needs a system that can fork processes, which this one cannot.")
    from dynalint.confirm.worker.sandbox import usable_namespaces
    from dynalint.confirm.worker.tracing.session import VARIABLE, Session

    assert options.cache is not None
    stock = Stock(options.cache)
    stock.discard_stale()
    folder = Path(tempfile.mkdtemp(prefix="dynalint-trace-"))
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
        code = _run(command, {**os.environ, "PYTHONPATH": search, VARIABLE: str(folder)})
        end = time.monotonic() + session.left + _GRACE_SECONDS
        while session.waiting():
            if time.monotonic() > end:
                session.abandon()
                break
            if progress is not None:
                progress("confirming the last calls")
            time.sleep(_POLL)
        return _traced(code, list(session.notes()), stock, len(known), session.spent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    """Run a command as though it had been started in place of this process, and return its exit code."""
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise DynalintError(f"cannot run {command[0]}: {error.strerror}.") from error
    with _signals_left_to(process):
        code = process.wait()
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _signals_left_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Let the command decide on Ctrl-C, which reaches it as well, and hand on what is sent to this process alone."""
    former = {signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    for name in _FORWARDED:
        number = getattr(signal, name)
        former[number] = signal.signal(number, lambda received, _: process.send_signal(received))
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def problems_of(notes: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Return the names of calls that were seen and not confirmed, each with the reason, from the notes of a session."""
    found: dict[tuple[str, str], None] = {}
    for note in notes:
        if "declined" in note:
            found[note["declined"], note["reason"]] = None
        elif "confirmed" in note and note["key"] is None:
            target = Target(Path(), "", note["confirmed"])
            problem = testify(target, "?", note["record"], {}).problem
            assert problem is not None
            found[note["confirmed"], problem_text(problem, target, "?")] = None
    return tuple(found)


def _traced(code: int, notes: list[dict[str, Any]], stock: Stock, known: int, seconds: float) -> Traced:
    keys = [note["key"] for note in notes if note.get("key") is not None]
    return Traced(
        code=code,
        confirmed=tuple(found for key in keys if (found := stock.testimony(key, {})) is not None),
        problems=problems_of(notes),
        raising=tuple(f"{note['raises']} ({note['error']})" for note in notes if "raises" in note),
        left=tuple(note["left"] for note in notes if "left" in note),
        foreign=tuple(dict.fromkeys(note["foreign"] for note in notes if "foreign" in note)),
        failures=tuple(dict.fromkeys(note["failed"] for note in notes if "failed" in note)),
        processes=sum("torch" in note for note in notes),
        known=known,
        seconds=seconds,
    )
