"""The parent's end of the worker: start it, ask it, and outlive whatever happens to it.

    with Worker(WorkerOptions(python=..., search=(...,))) as worker:
        worker.hello.torch                                     # "2.13.0+cpu", None where there is no torch
        answer = worker.ask("operations.confirming:confirm", request)  # an `Answer`, whatever the code under check does

An operation is `module:function` in `dynalint/confirm/worker` or in one of `WorkerOptions.folders`, whose modules
import the worker's by `from .dynamo.runs import ...`. The function is called as `function(request, reply)` in a process
of its own behind the sandbox's walls, with what JSON can hold of `request`; it says what it is doing by
`reply.stage("...")` and hands over pieces of its answer by `reply.part(name, value)`. Before it imports the code under
check it calls `loading.load_target`, which takes `request["overrides"]` (`{absolute path: text}`), so that rewritten
modules run without being written anywhere.

    for answer in worker.ask_each("operations.confirming:confirm", requests, prepare="operations.confirming:prepare"):

asks for several: where the system can fork, each runs in a process forked from one that has done what `prepare` does.
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

from dynalint.confirm.budget import Budget
from dynalint.confirm.servers import Hello, Server, WorkerError, WorkerOptions, give_back, take_server
from dynalint.confirm.shapes import fits
from dynalint.confirm.untrusted import MOST_SENTENCE, MOST_TEXT, sentence, tamed
from dynalint.confirm.worker.process.wire import PATIENCE
from dynalint.reading import is_inside, project_root

__all__ = ["Answer", "Hello", "Worker", "WorkerError", "WorkerOptions", "python_path"]

# By the clock, as what waits for an answer does: on a busy machine all takes many times as long.
_IMPORT_SECONDS = 600.0
_GRACE_SECONDS = 15.0
# What is said of a fix stands in a report as it is; Dynamo's own words on a break are taken apart first.
_MOST_TEXT = {"operations.verifying:verify": MOST_SENTENCE, "operations.confirming:confirm": 1 << 12}


@dataclass(frozen=True)
class Answer:
    """What came back: the parts in hand when the request ended, how it ended, and what was going on then.

    `outcome` is `done`, or what happened instead: `refused` (no sandbox holds), `failed` (an exception in the
    operation itself), `exit`, `signal`, `killed`, `timeout`, `memory`, `processes`, `flood` (of messages), `channel`,
    `supervisor`, `garbled` (what came is not what the operation tells), `lost`, `budget` (all of it is spent).
    `ending` holds the particulars (`reason`, `status`, `signal`, `seconds`, `bytes`, `count`), `spent` the seconds that
    it took, waiting for a processor not counted.
    """

    outcome: str
    parts: Mapping[str, Any]
    ending: Mapping[str, Any]
    stage: str
    walls: tuple[str, ...] = ()
    spent: float = 0.0

    @property
    def done(self) -> bool:
        """Whether the operation ran to its end."""
        return self.outcome == "done"


class Worker:
    """One server process. Not for use by several threads at once; start one worker for each instead.

    Raises WorkerError where the interpreter cannot be started. A server that dies is started again for the next
    request.
    """

    def __init__(self, options: WorkerOptions) -> None:
        self.options = options
        self._closed = False
        self._walls: tuple[str, ...] = ()
        self._server: Server | None = take_server(options)
        self.hello = self._server.hello

    def __enter__(self) -> Worker:  # noqa: PYI034 - typing.Self is not in Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, operation: str, request: Mapping[str, Any], on_stage: Callable[[str], None] | None = None) -> Answer:
        """Have `operation` run and return what it found; `on_stage` hears what is being done."""
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
        """Have `operation` run for each of the requests and yield what it found, in their order.

        `prepare` is called with the first request in the process that those for all of them are forked from. What one
        does to its process, or a crash, costs no other its answer. A GPU's driver writes to `/proc/self`, which the
        walls allow the process that they were put up in, and none that is forked from it: on one, each is asked alone.
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
        """Yield the answers to the first requests, up to one after which none of the others is looked at."""
        if self._is_closed():
            yield Answer("lost", {}, {"reason": "the worker was closed"}, "starting")
            return
        budget, options = self.options.budget, self.options
        if budget is not None and not budget.left:
            yield _out_of(budget)
            return
        if self._server is None:
            self._server = Server(self.options)
            if self._is_closed():  # meanwhile, by another thread
                self._kill()
                yield Answer("lost", {}, {"reason": "the worker was closed"}, "starting")
                return
        server = self._server
        server.number += 1
        server.idle = False
        self._walls = ()
        seconds = options.seconds if budget is None else min(options.seconds, budget.left)
        limits = {"seconds": seconds, "memory": options.memory, "cpu_seconds": int(4 * seconds) + 1}
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
                        answer = _out_of(budget)
                yield answer if fits(operation, answer.parts, done=answer.done) else _garbled(answer)
                if budget is not None and not budget.left:
                    return
        finally:
            if more:
                # Whoever asked does not want to hear the rest.
                self._kill()

    def _next_answer(self, server: Server, most: int, on_stage: Callable[[str], None] | None) -> tuple[Answer, bool]:
        """Return what comes up to the next end, and whether more answers to the same message follow.

        Texts are cut to `most` characters.
        """
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
                    ending = tamed(reply["end"], most)
                    answer = Answer(ending["outcome"], parts, ending, stage, self._walls, spent)
                    return answer, bool(reply.get("more"))
                kind, value = reply["kind"], tamed(reply["value"], most)
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
        """End the server, or have it wait for another worker; a request in progress in another thread is lost."""
        self._closed = True
        server, self._server = self._server, None
        if server is not None:
            give_back(server)

    def _kill(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.end()


def _out_of(budget: Budget) -> Answer:
    return Answer("budget", {}, {"outcome": "budget", "seconds": budget.seconds}, "starting")


def _garbled(answer: Answer) -> Answer:
    return replace(answer, outcome="garbled", parts={}, ending={"outcome": "garbled"})


def python_path() -> list[str]:
    """Return the folders of PYTHONPATH, as the user's own interpreter would search them."""
    return [str(Path(entry).absolute()) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


def homes() -> list[str]:
    """Return the folders that the user's own things are in, which nobody's project opens by lying there."""
    found = [os.environ.get("HOME", ""), os.environ.get("USERPROFILE", "")]
    return [str(Path(home).absolute()) for home in found if home]


def _readable(options: WorkerOptions, requests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the folders of the project: the one that is worked in, and those of targets that lie elsewhere."""
    found = {str(options.cwd): None, str(project_root(options.cwd.absolute())): None}
    for request in requests:
        target = request.get("target")
        if isinstance(target, Mapping) and not any(is_inside(Path(target["path"]), Path(root)) for root in found):
            found[str(project_root(Path(target["path"]).parent))] = None
    return list(found)


def _within(search: Iterable[str], project: Path) -> list[str]:
    """Return the folders to import from without links that stand in the project and lead out of it."""
    return [one for one in search if not Path(one).absolute().is_relative_to(project) or is_inside(Path(one), project)]
