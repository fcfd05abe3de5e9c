"""The parent's side of the worker: start it, send requests, and survive when the code being checked crashes.

    with Worker(WorkerOptions(python=..., search=(...,))) as worker:
        worker.hello.torch                                     # "2.13.0+cpu", or None without torch
        answer = worker.ask("operations.confirming:confirm", request)  # always an `Answer`, even after a crash

An operation is `module:function` in `dynalint/confirm/worker` or in one of `WorkerOptions.folders`. Modules in those
folders import the worker's modules with `from .dynamo.runs import ...`. The worker calls `function(request, reply)` in
a separate sandboxed process, where `request` is JSON data. The function reports progress with `reply.stage("...")` and
sends parts of its answer with `reply.part(name, value)`. Before it imports the code being checked, it calls
`loading.load_target`. This function applies `request["overrides"]` (`{absolute path: text}`), so rewritten modules can
run without being written to disk.

    for answer in worker.ask_each("operations.confirming:confirm", requests, prepare="operations.confirming:prepare"):

sends more than one request. If the system can fork, a process runs `prepare` once and then forks for each request.
"""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from dynalint.confirm.budget import TimeBudget
from dynalint.confirm.servers import Hello, WorkerError, WorkerOptions, WorkerServer, give_back, take_server
from dynalint.confirm.shapes import fits
from dynalint.confirm.untrusted import MOST_SENTENCE, MOST_TEXT, sanitised, sentence
from dynalint.confirm.worker.process.wire import PATIENCE
from dynalint.projects.reading import is_inside, project_root

__all__ = ["Answer", "Hello", "Worker", "WorkerError", "WorkerOptions", "python_path"]

# The wall-clock limits are generous, because everything takes much longer on a busy machine.
_IMPORT_SECONDS = 600.0
_GRACE_SECONDS = 15.0
# Text about a fix is shown in reports as it is received, so it must be short. Dynamo's text on a break is parsed first.
_MOST_TEXT = {"operations.verifying:verify": MOST_SENTENCE, "operations.confirming:confirm": 1 << 12}


@dataclass(frozen=True)
class Answer:
    """The worker's answer to a request: the parts received, how the request ended, and the last stage reported.

    `outcome` is `done`, or the reason why the request did not complete: `refused` (no sandbox is available), `failed`
    (an exception in the operation itself), `exit`, `signal`, `killed`, `timeout`, `memory`, `processes`, `flood` (too
    many messages), `channel`, `supervisor`, `garbled` (the parts have the wrong types), `lost`, `budget` (the budget is
    used up). `ending` contains the details (`reason`, `status`, `signal`, `seconds`, `bytes`, `count`). `spent` is the
    time in seconds, not counting the time spent waiting for a processor.
    """

    outcome: str
    parts: Mapping[str, Any]
    ending: Mapping[str, Any]
    stage: str
    walls: tuple[str, ...] = ()
    spent: float = 0.0

    @property
    def done(self) -> bool:
        """Whether the operation ran to completion."""
        return self.outcome == "done"


class Worker:
    """A server process. It is not thread-safe, so use one worker per thread.

    Raises WorkerError if the interpreter cannot be started. If the server dies, the next request starts a new server.
    """

    def __init__(self, options: WorkerOptions) -> None:
        self.options = options
        self._closed = False
        self._walls: tuple[str, ...] = ()
        self._server: WorkerServer | None = take_server(options)
        self.hello = self._server.hello

    def __enter__(self) -> Worker:  # noqa: PYI034 - typing.Self is not in Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, operation: str, request: Mapping[str, Any], on_stage: Callable[[str], None] | None = None) -> Answer:
        """Run `operation` and return its answer. `on_stage` receives each stage that the worker reports."""
        (answer,) = self.ask_each(operation, [request], on_stage=on_stage)
        return answer

    def ask_each(
        self,
        operation: str,
        requests: Sequence[Mapping[str, Any]],
        *,
        prepare: str = "",
        on_stage: Callable[[str], None] | None = None,
    ) -> Generator[Answer, None, None]:
        """Run `operation` for each request and yield the answers in the same order.

        `prepare` is called with the first request, in a process that is then forked for each request. If a request
        crashes or corrupts its process, the other requests still get their answers. A GPU driver writes to
        `/proc/self`, which the sandbox allows only in the process where it was set up, not in forks. On a GPU, requests
        are therefore sent one at a time.
        """
        left = list(requests)
        together = len(left) if self.options.device == "cpu" else 1
        while left:
            for answer in self._ask_together(operation, left[:together], prepare, on_stage):
                left.pop(0)
                yield answer

    def _ask_together(
        self,
        operation: str,
        requests: Sequence[Mapping[str, Any]],
        prepare: str,
        on_stage: Callable[[str], None] | None,
    ) -> Iterator[Answer]:
        """Yield answers to requests sent together, until one of them ends in a way that leaves the rest unanswered."""
        if self._is_closed():
            yield Answer("lost", {}, {"reason": "the worker was closed"}, "starting")
            return
        budget, options = self.options.budget, self.options
        if budget is not None and not budget.left:
            yield out_of(budget)
            return
        if self._server is None:
            self._server = WorkerServer(self.options)
            if self._is_closed():  # Another thread has closed the worker.
                self._kill()
                yield Answer("lost", {}, {"reason": "the worker was closed"}, "starting")
                return
        server = self._server
        server.number += 1
        server.idle = False
        self._walls = ()
        seconds = options.seconds if budget is None else min(options.seconds, budget.left)
        limits = {
            "seconds": seconds,
            "memory": options.memory,
            "cpu_seconds": int(4 * seconds) + 1,
            "idle": options.idle,
        }
        message = {
            "id": server.number,
            "operation": operation,
            "prepare": prepare,
            "requests": [dict(request) for request in requests],
            "limits": limits,
            "device": options.device,
            "required": options.required,
            "search": _within(options.search, project_root(options.cwd.absolute())),
            "python_path": python_path(),
            "folders": list(options.folders),
            "cwd": str(options.cwd),
            "readable": _readable(options, requests),
            "homes": homes(),
        }
        more, left = True, len(requests)
        try:
            server.send(message)
        except (OSError, EOFError) as error:
            self._kill()
            yield Answer("lost", {}, {"reason": str(error)}, "starting")
            return
        try:
            while more and left:
                answer, more = self._next_answer(server, _MOST_TEXT.get(operation, MOST_TEXT), on_stage)
                server.idle = not more
                left -= 1
                if budget is not None:
                    budget.spend(answer.spent)
                    if answer.outcome == "timeout" and seconds < options.seconds:
                        answer = out_of(budget)
                yield answer if fits(operation, answer.parts, done=answer.done) else _garbled(answer)
                if budget is not None and not budget.left:
                    return
        finally:
            if more:
                # The caller stopped before it received the last answer.
                self._kill()

    def _next_answer(
        self, server: WorkerServer, most: int, on_stage: Callable[[str], None] | None
    ) -> tuple[Answer, bool]:
        """Return the next answer, with texts cut to `most` characters, and whether the message has more answers."""
        parts: dict[str, Any] = {}
        stage, spent = "starting", 0.0
        wait = PATIENCE * self.options.seconds + _GRACE_SECONDS + (0.0 if server.warm else _IMPORT_SECONDS)
        deadline = time.monotonic() + wait
        try:
            while True:
                reply = server.receive(deadline)
                if reply.get("id") != server.number:
                    continue
                if "end" in reply:
                    server.warm = True
                    ending = sanitised(reply["end"], most)
                    answer = Answer(ending["outcome"], parts, ending, stage, self._walls, spent)
                    return answer, bool(reply.get("more"))
                kind, value = reply["kind"], sanitised(reply["value"], most)
                if kind == "stage":
                    stage = sentence(value)
                    if on_stage is not None:
                        on_stage(stage)
                elif kind == "part":
                    parts[value[0]] = value[1]
                elif kind == "spent":
                    spent = float(value)
                elif kind == "sandbox":
                    self._walls = tuple(value["layers"])
        except (OSError, ValueError, TypeError, LookupError, queue.Empty, EOFError) as error:
            self._kill()
            return Answer("lost", parts, {"reason": str(error) or type(error).__name__}, stage, self._walls), False

    def _is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Stop the server, or keep it for another worker.

        If another thread is waiting for an answer, the answer is lost.
        """
        self._closed = True
        server, self._server = self._server, None
        if server is not None:
            give_back(server)

    def _kill(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.end()


def out_of(budget: TimeBudget) -> Answer:
    """Return the answer to a request for which no budget is left."""
    return Answer("budget", {}, {"outcome": "budget", "seconds": budget.seconds}, "starting")


def _garbled(answer: Answer) -> Answer:
    return replace(answer, outcome="garbled", parts={}, ending={"outcome": "garbled"})


def python_path() -> list[str]:
    """Return the folders in PYTHONPATH, as absolute paths."""
    return [str(Path(entry).absolute()) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


def homes() -> list[str]:
    """Return the home folders, which must never become readable just because they contain a project."""
    found = [os.environ.get("HOME", ""), os.environ.get("USERPROFILE", "")]
    return [str(Path(home).absolute()) for home in found if home]


def _readable(options: WorkerOptions, requests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the project folders that code may read: the working folder's project, and the targets' projects."""
    found = {str(options.cwd): None, str(project_root(options.cwd.absolute())): None}
    for request in requests:
        target = request.get("target")
        if isinstance(target, Mapping) and not any(is_inside(Path(target["path"]), Path(root)) for root in found):
            found[str(project_root(Path(target["path"]).parent))] = None
    return list(found)


def _within(search: Iterable[str], project: Path) -> list[str]:
    """Return the folders to import from, except links inside the project that point outside it."""
    return [one for one in search if not Path(one).absolute().is_relative_to(project) or is_inside(Path(one), project)]
