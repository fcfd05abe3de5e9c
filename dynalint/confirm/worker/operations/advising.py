"""Try remedies that do not change the model: Dynamo settings, and `fullgraph=True`.

Only measured results are reported. Each part of the answer is sent as soon as it is known:

    problem     as in `confirming`
    before      an `Outcome`, the result with the current settings
    tried       all settings that were tried, as `Tried` records
    remedies    those that help, as `Remedy` records, starting with the smallest set of settings with the best result
    cut_short   whether the time or the number of tries ran out
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..comparing.compiled import compare
from ..dynamo import runs
from ..dynamo.graph_records import Outcome, Remedy, Tried
from ..dynamo.records import EagerComparison, Run, encode
from ..dynamo.runs import Call, Listener, compiled_run
from ..dynamo.settings import Setting, compiled, in_force, relevant
from ..inputs.targets import BuiltTarget, ProblemError, subject_of
from ..process.wire import Reply
from ..source import loading
from .explaining import calls_of

_MOST_TRIES = 30
# Fractions of the request's time. After these, no more settings or no `fullgraph=True` are tried.
_SETTINGS, _FULLGRAPH = 0.6, 0.85


def advise(request: Mapping[str, Any], reply: Reply) -> None:
    """Handle a request similar to the one for `explaining`."""
    runs.trace_own_compiles()
    loading.prepare(request["search"], request["overrides"])
    start = time.process_time()
    try:
        Advisor(subject_of(request, reply), request, reply, start).serve()
    except ProblemError as problem:
        reply.part("problem", {"phase": problem.phase, "failure": encode(problem.failure)})


@dataclass
class RemedyListener(Listener):
    """Compiles with a given compiler. `runs` are the sizes of the graphs that ran in the first call, in order."""

    compiler: Callable[[Callable[..., Any], Any], Any] | None = None
    size: int = 0
    runs: list[int] = field(default_factory=list)

    def note_graph(self, module: torch.fx.GraphModule) -> None:
        """Record the graph's size."""
        before = self.operations
        super().note_graph(module)
        self.size = self.operations - before

    def runner(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Record the graphs that run in the first call."""
        size = self.size

        def counted(*args: Any) -> Any:
            if self.call == 0:
                self.runs.append(size)
            return run(*args)

        return counted

    def compile(self, function: Callable[..., Any], backend: Callable[..., Any], *, fullgraph: bool) -> Any:
        """Compile with the given compiler, if there is one."""
        if self.compiler is None:
            return super().compile(function, backend, fullgraph=fullgraph)
        return self.compiler(function, backend)


class NoTriesLeftError(Exception):
    """The time or the number of tries has run out."""


class Advisor:
    """Tries different ways to compile a subject, until all have been tried or time runs out."""

    def __init__(self, subject: BuiltTarget, request: Mapping[str, Any], reply: Reply, start: float) -> None:
        self._make = subject.make
        self._request = request
        self._reply = reply
        self._start = self._deadline = start
        calls = calls_of(subject.make, subject.call)
        self._calls: list[Call] = [*calls.calls[:2], *calls.calls[calls.warm.stop :][:1]]
        self._tried: list[Tried] = []
        self._remedies: list[Remedy] = []

    def serve(self) -> None:
        """Try everything, and send each remedy as soon as it is found."""
        run, before = self._run(None)
        self._reply.part("before", encode(before))
        phases: list[tuple[float, Callable[[], None]]] = [(_SETTINGS, lambda: self._try_settings(run, before))]
        if before.breaks:
            phases.append((_FULLGRAPH, self._try_fullgraph))
        cut_short = False
        for share, phase in phases if before.breaks or before.recompiles else ():
            self._deadline = self._start + share * self._request["seconds"]
            try:
                phase()
            except NoTriesLeftError:
                cut_short = True
        self._reply.part("cut_short", cut_short)

    def _run(self, compiler: Callable[[Callable[..., Any], Any], Any] | None) -> tuple[Run, Outcome]:
        way = RemedyListener(compiler=compiler)
        run = compiled_run(self._make, self._calls, way)
        kinds = {(one.stack[-1].file, one.stack[-1].line, one.gb_type) for one in run.breaks if one.stack}
        return run, Outcome(
            breaks=len(kinds),
            graphs=len(way.runs),
            operators=sum(way.runs),
            recompiles=len(run.recompiles),
            error="" if run.error is None else f"{run.error.type}: {run.error.message}".splitlines()[0],
            places=tuple(sorted({(file, line) for file, line, _ in kinds})),
        )

    def _try(self, name: str, lines: Sequence[str], way: Callable[[Callable[..., Any], Any], Any]) -> Tried:
        """Try a way to compile. Raises NoTriesLeftError if no time is left."""
        if len(self._tried) >= _MOST_TRIES or time.process_time() > self._deadline:
            raise NoTriesLeftError
        self._reply.stage(f"trying {name}")
        tried = Tried(name, tuple(lines), self._run(way)[1])
        self._tried.append(tried)
        self._reply.part("tried", encode_all(self._tried))
        return tried

    def _compare(self, settings: Sequence[Setting]) -> EagerComparison:
        with in_force(settings):
            return compare(self._make, self._calls[-2:], lambda function: compiled(function, settings, "aot_eager"))

    def _keep(self, kind: str, tried: Tried, found: EagerComparison, note: str = "") -> None:
        """Send a remedy, and how its results compare with those of eager code."""
        equal = None if not found.stable else found.same
        difference = "" if found.same else f"{found.what} in call {found.call + 1}: {found.detail}"
        self._remedies.append(Remedy(kind, tried, equal, difference, note))
        self._reply.part("remedies", encode_all(self._remedies))

    def _with(self, settings: Sequence[Setting]) -> Tried:
        name = " and ".join(setting.name for setting in settings)
        lines = [line for setting in settings for line in setting.line.splitlines()]
        with in_force(settings):
            return self._try(name, lines, lambda function, backend: compiled(function, settings, backend))

    def _try_settings(self, run: Run, before: Outcome) -> None:
        """Find the smallest set of settings with the best result, from each one alone, all together, then fewer."""
        alone: dict[str, Tried] = {}
        able: list[Setting] = []
        best: tuple[Setting, ...] = ()
        reached = before
        better: list[tuple[tuple[Setting, ...], Tried]] = []
        try:
            for setting in relevant(runs.fresh_callable(self._make), self._calls, run):
                tried = alone[setting.name] = self._with([setting])
                if not tried.outcome.error:
                    able.append(setting)
                    if _merit(tried.outcome) < _merit(reached):
                        best, reached = (setting,), tried.outcome
                        better.append((best, tried))
            able.sort(key=lambda setting: _merit(alone[setting.name].outcome))
            together = _compatible(able)
            if reached.breaks + reached.recompiles and len(together) > 1:
                tried = self._with(together)
                if not tried.outcome.error and _merit(tried.outcome) < _merit(reached):
                    best, reached = together, tried.outcome
                    better.append((best, tried))
                for setting in reversed(best if len(best) > 1 else ()):
                    fewer = tuple(one for one in best if one is not setting)
                    tried = self._with(fewer) if len(fewer) > 1 else alone[fewer[0].name]
                    if not tried.outcome.error and _merit(tried.outcome) <= _merit(reached):
                        best, reached = fewer, tried.outcome
                        better.append((best, tried))
                    if len(best) == 1:
                        break
        finally:
            self._keep_settings(better[::-1])

    def _keep_settings(self, better: Sequence[tuple[tuple[Setting, ...], Tried]]) -> None:
        """Keep the first of some sets of settings, best first, whose results are those of eager code, or else the best.

        The outcomes are those of the backend `eager`. What comes after Dynamo may still fail with these settings, for
        example because it specialises a size that is marked as dynamic.
        """
        kept: tuple[tuple[Setting, ...], Tried, EagerComparison] | None = None
        for settings, tried in better:
            if kept is not None and time.process_time() > self._deadline:
                break
            found = self._compare(settings)
            if kept is None or found.same:
                kept = settings, tried, found
            if found.same:
                break
        if kept is not None:
            settings, tried, found = kept
            self._keep("settings", tried, found, " ".join(setting.note for setting in settings if setting.note))

    def _try_fullgraph(self) -> None:
        whole = Setting("fullgraph", "torch.compile(model, fullgraph=True)", options={"fullgraph": True})
        tried = self._with([whole])
        if not tried.outcome.error:
            note = "It raises an error instead of breaking the graph, and captures scalars and dynamic shapes."
            self._keep("fullgraph", tried, self._compare([whole]), note)


def encode_all(records: Sequence[Any]) -> list[Any]:
    """Return records as JSON data."""
    return [encode(record) for record in records]


def _merit(outcome: Outcome) -> tuple[bool, int, int, int]:
    """Return a sort key for outcomes: no error first, then fewer breaks, fewer recompilations and larger graphs."""
    return bool(outcome.error), outcome.breaks, outcome.recompiles, -outcome.operators


def _compatible(settings: Sequence[Setting]) -> tuple[Setting, ...]:
    """Return settings that work together: at most one for shapes, and one for each logging function."""
    kept: dict[str, Setting] = {}
    for setting in settings:
        subject = setting.name.partition(": ")[2] or ("shapes" if setting.name in ("dynamic", "mark_dynamic") else "")
        kept.setdefault(subject or setting.name, setting)
    return tuple(kept.values())
