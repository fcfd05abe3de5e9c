"""Confirm a target's findings: import the target, find inputs for it, and run it in every mode.

Parts of the answer, in the order in which they become known:

    files     the project's own source files that were imported
    inputs    a description of how the target was built and called
    problem   why there are no more parts: `{"phase", "failure"}`, with phases `import`, `build`, `inputs`, `run`
    shown     for each parameter, what the call passes, a record from `dynamo`
    eager, default, fullgraph   records from `dynamo`, or only `default` for a call that fails, if no other was found
    missing   the packages that are not installed and have stand-ins
    coverage  for each requested spot, how much of its bytecode Dynamo traced in frames that it captured
    latent    the run without the breaks that make a frame fall back to eager mode: `run`, a record from `dynamo`,
              and `coverage` as above
    evaluation.*   the same parts for a run in evaluation mode, if it reaches different code
    compare   a record from `compare`, if a file in `request["compare"]` was imported, or if a call changes its
              arguments or the state of the user's own modules
"""

from __future__ import annotations

import time
import tokenize
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import nn
from torch._dynamo import config

from ..comparing.blame import place_of
from ..comparing.compiled import compare, leaves_traces
from ..dynamo import runs
from ..dynamo.deadlines import Deadline, OutOfTimeError
from ..dynamo.hidden_breaks import JudgedFile, joined, latent_run
from ..dynamo.records import EagerComparison, EagerRun, Run, Span, StackFrame, encode
from ..dynamo.runs import Call, Maker
from ..inputs.chosen_calls import REPEATS, ChosenCalls, choose
from ..inputs.targets import BuiltTarget, ProblemError, subject_of
from ..inputs.variants import rising
from ..process.wire import Prefixed, Reply
from ..source import loading, spans, stand_ins

# After this fraction of the request's time, results are compared only if the request asks for it. If it does not, the
# comparison may take twice as long.
_COMPARE_AFTER = 0.05
# After this fraction, the compiler is interrupted, and what it has shown until then is sent.
_COMPILING = 0.9
# The fraction of the time for finding what breaks hide. If the default run took longer, that time is used instead.
_LATENT = 0.15
# The fraction of the time for a call that fails, which has taken time to find.
_FAILING = 0.25
_prepared: set[tuple[str, str]] = set()


def prepare(request: Mapping[str, Any], reply: Reply) -> None:
    """Import a target's module, and do the work that all requests for its targets share.

    After the first request, this is called for modules that other requests have imported without harm.
    """
    module = request["target"]["path"], request["target"]["module"]
    if module in _prepared:
        return
    _prepared.add(module)
    runs.trace_own_compiles()
    loading.prepare(request["search"], request["overrides"])
    if not request["example"]:
        reply.stage(f"importing {request['name']}")
        loading.import_once(*module)
    loading.remember_modules()
    loading.imported_files(request["roots"])
    with suppress(SyntaxError, ValueError, OSError):
        for file, path in code_names(request["spots"]).items():
            spans.operations_of(_text(path, request["overrides"]), file)


def confirm(request: Mapping[str, Any], reply: Reply) -> None:
    """Handle a request: `target`, `example`, `search`, `overrides`, `folder`, `roots`, `spots`, `compare`, ...

    `spots` maps absolute paths to ranges `[line, column, end line, end column]`, with 0-based columns in UTF-8 bytes.
    `brief` means that no finding is expected in the target's code, so that the call that works is not varied.
    """
    try:
        subject = subject_of(request, reply)
        reply.part("inputs", stand_ins.noted(subject.text))
        # Send the files now in case the process dies, and again at the end, when everything has been imported.
        reply.part("files", loading.imported_files(request["roots"]))
        run_modes(subject, request, reply, None)
    except ProblemError as problem:
        reply.part("problem", {"phase": problem.phase, "failure": encode(problem.failure)})
        if problem.attempt is not None:
            _run_attempt(problem.attempt, request, reply)
    finally:
        reply.part("files", loading.imported_files(request["roots"]))
        reply.part("missing", stand_ins.names())


def _run_attempt(subject: BuiltTarget, request: Mapping[str, Any], reply: Reply) -> None:
    """Run a call that fails, because Dynamo may break at a requested line before it does. Only send the breaks."""
    watched = code_names(request["spots"])
    eager = runs.eager_run(subject.make, [subject.call], watched)
    spots = ((file, spot) for file, path in watched.items() for spot in request["spots"][path])
    if not any(spot[0] <= line <= spot[2] for file, spot in spots for line in eager.lines.get(file, ())):
        return
    reply.stage(f"running {request['target']['qualname']} under torch.compile")
    with Deadline(request["seconds"] * _FAILING, request["seconds"]).kept():
        default = runs.default_run(subject.make, [subject.call], watched)
    reply.part("inputs", stand_ins.noted(subject.text))
    reply.part("default", encode(replace(default, traced={}, compiles=(), error=None)))


def run_modes(
    subject: BuiltTarget, request: Mapping[str, Any], reply: Reply, seen: Callable[[Run], None] | None
) -> bool:
    """Run the modes and send each result. Return False if there was not enough time.

    `seen` receives the run in default mode, and then the run without the breaks that hide others, if there is one.

    Raises:
        ProblemError: If the call fails in eager mode.
    """
    started = time.process_time()
    make, name = subject.make, request["target"]["qualname"]
    watched = code_names(request["spots"])
    reply.stage(f"running {name} without the compiler")
    chosen, eager = _chosen(subject, request, watched)
    late = Deadline(request["seconds"] * _COMPILING - (time.process_time() - started), request["seconds"])
    session = _Session(request, reply, watched, seen, late)
    partly = session.run(make, chosen, eager)
    # A traced call runs in the program's own mode, but a module built here is in training mode only by default. The run
    # in evaluation mode is reported only if it reaches different lines in watched files.
    evaluating = _evaluating(make) if seen is None and watched and not late.passed else None
    if evaluating is not None:
        reply.stage(f"running {name} in evaluation mode")
        # Repeats of the same call reach no other lines.
        other = runs.eager_run(evaluating, [chosen.all[0], *chosen.all[chosen.same :]], watched)
        if other.error is None and (partly or not _reaches_no_more(other, eager)):
            replace(session, reply=Prefixed("evaluation", reply)).run(evaluating, chosen, other)
    if late.passed:
        return False
    asked = not set(request["compare"]).isdisjoint(loading.imported_files(request["compare"]))
    in_time = time.process_time() - started < request["seconds"] * _COMPARE_AFTER
    if asked or (in_time and leaves_traces(make, subject.call)):
        reply.stage(f"comparing {name} with and without the compiler")
        # What nothing asks for must not use up the time of what comes after it.
        limit = Deadline(request["seconds"] * 2 * _COMPARE_AFTER, request["seconds"])
        with suppress(OutOfTimeError), nullcontext() if asked else limit.kept():
            found = _compared(subject, request)
        if not limit.passed:
            reply.part("compare", encode(found))
    return True


def _chosen(
    subject: BuiltTarget, request: Mapping[str, Any], watched: Mapping[str, str]
) -> tuple[ChosenCalls, EagerRun]:
    """Return the calls to run, and what they run in eager mode. Raises ProblemError if the first one fails."""
    chosen = choose(
        subject.make,
        subject.call,
        watched,
        request["spots"],
        guessed=subject.guessed,
        varied=subject.varied,
        resized=not set(request["resized"]).isdisjoint(loading.imported_files(request["resized"])),
        brief=request.get("brief", False),
    )
    calls = chosen.all
    eager = runs.eager_run(subject.make, calls, watched)
    if eager.error is not None:
        if eager.error.call < chosen.same:
            raise ProblemError("run", eager.error)
        # The call works alone but fails after the others, so keep only the calls before it.
        calls = calls[: eager.error.call]
        eager = replace(eager, error=None)
    return replace(chosen, repeats=calls[: len(chosen.repeats)], others=calls[len(chosen.repeats) :]), eager


def _compared(subject: BuiltTarget, request: Mapping[str, Any]) -> EagerComparison:
    """Compare compiled with eager code, and find the code that is responsible for a difference."""
    grown = rising(subject.call, REPEATS)
    grown = grown if runs.eager_run(subject.make, grown).error is None else [subject.call] * REPEATS
    found = compare(subject.make, grown)
    if found.same:
        return found
    return replace(found, place=place_of(subject.make, grown, found, request["roots"], request["seconds"] / 4))


@dataclass(frozen=True)
class _Session:
    """The state that all runs for a request share."""

    request: Mapping[str, Any]
    reply: Reply
    watched: Mapping[str, str]
    seen: Callable[[Run], None] | None
    late: Deadline

    def run(self, make: Maker, chosen: ChosenCalls, eager: EagerRun) -> bool:
        """Send the eager run, and run all of the compiler's modes.

        Returns whether part of a requested spot was left untraced.
        """
        request, reply, name = self.request, self.reply, self.request["target"]["qualname"]
        reply.part("eager", encode(_by_path(eager, self.watched)))
        reply.part("calls", _told(chosen))
        reply.stage(f"running {name} under torch.compile")
        started = time.process_time()
        skipped: set[int] = set()
        with self.late.kept():
            default = runs.default_run(make, chosen.paced(skipped), self.watched)
        if skipped:
            chosen = chosen.without(skipped)
            reply.part("calls", _told(chosen))
        calls, repeats, others = chosen.all, chosen.repeats, chosen.others
        seconds = max(time.process_time() - started, request["seconds"] * _LATENT)
        reply.part("default", encode(replace(default, traced={})))
        coverage = self._coverage(default)
        reply.part("coverage", coverage)
        if self.seen is not None:
            self.seen(default)
        if self.late.passed:
            return False
        reply.stage(f"running {name} without the breaks that hide others")
        asked = {
            file: JudgedFile(_text(path, request["overrides"]), request["spots"][path])
            for file, path in self.watched.items()
        }
        with self.late.kept():
            latent = self._uncovered(make, [calls[0], *others], eager, default, asked, seconds)
        if latent is not None:
            reply.part("latent", {"run": encode(replace(latent, traced={})), "coverage": self._coverage(latent)})
            if self.seen is not None:
                self.seen(latent)
        # Where all that ran was traced, this mode can add nothing.
        seen = [default] if latent is None else [default, latent]
        wanted = default.breaks or default.error is not None or (chosen.asked and self._is_open(eager, seen))
        if wanted and not self.late.passed:
            reply.stage(f"running {name} with fullgraph=True")
            with self.late.kept():
                whole = _fullgraph(make, repeats[: chosen.same], others)
            if not self.late.passed:
                reply.part("fullgraph", encode(whole))
        return any(0 < one["traced"] < one["operations"] for counts in coverage.values() for one in counts)

    def _uncovered(
        self,
        make: Maker,
        calls: Sequence[Call],
        eager: EagerRun,
        default: Run,
        asked: Mapping[str, JudgedFile],
        seconds: float,
    ) -> Run | None:
        """Run without the breaks that hide others. Frames that cannot be compiled run in eager mode."""
        is_open = partial(self._is_open, eager)
        if default.error is None:
            return latent_run(make, calls, default, asked, seconds, is_open)
        with config.patch(suppress_errors=True):
            seen = runs.default_run(make, calls, self.watched)
            return joined(seen, latent_run(make, calls, seen, asked, seconds, is_open))

    def _is_open(self, eager: EagerRun, runs: Sequence[Run]) -> bool:
        """Return whether there is a requested range that ran but neither broke the graph nor was traced completely."""
        counts = [self._coverage(run) for run in runs]
        stacks = (one.stack for run in runs for one in run.breaks)
        broken = [next((frame for frame in reversed(stack) if frame.file in self.watched), None) for stack in stacks]
        for file, path in self.watched.items():
            ran = eager.lines.get(file, ())
            for at, spot in enumerate(self.request["spots"][path]):
                whole = any(0 < one[path][at]["operations"] == one[path][at]["traced"] for one in counts)
                broke = any(frame is not None and frame.file == file and _is_at(frame, spot) for frame in broken)
                if not whole and not broke and any(spot[0] <= line <= spot[2] for line in ran):
                    return True
        return False

    def _coverage(self, run: Run) -> dict[str, list[dict[str, int]]]:
        return _coverage(self.request["spots"], self.watched, run.traced, self.request["overrides"])


def _is_at(frame: StackFrame, spot: Sequence[int]) -> bool:
    """Return whether a frame is on the first line of a range, and within its columns if they are known."""
    first, column, last, end = spot
    if frame.line != first or frame.column is None or frame.end_column is None:
        return frame.line == first
    return frame.end_column > column and (last > first or frame.column < end)


def _told(calls: ChosenCalls) -> dict[str, int]:
    return {"same": calls.same, "batch": len(calls.repeats) - calls.same, "all": len(calls.all)}


def _evaluating(make: Maker) -> Maker | None:
    """Return a maker of the same module in evaluation mode, or None if it is not a module in training mode."""

    def evaluating() -> Callable[..., Any]:
        function = make()
        owner = getattr(function, "__self__", function)
        if isinstance(owner, nn.Module):
            owner.eval()
        return function

    function = runs.fresh_callable(make)
    owner = getattr(function, "__self__", function)
    return evaluating if isinstance(owner, nn.Module) and owner.training else None


def _reaches_no_more(one: EagerRun, other: EagerRun) -> bool:
    return all(set(lines) <= set(other.lines.get(file, ())) for file, lines in one.lines.items())


def _fullgraph(make: Maker, repeats: Sequence[Call], others: Sequence[Call]) -> Run:
    """Run with `fullgraph=True`. Identical calls run separately, because others may reach the recompile limit."""
    run = runs.fullgraph_run(make, repeats)
    if run.error is None and others:
        other = runs.fullgraph_run(make, others)
        return run if other.error is None or other.error.recompile_limit else other
    return run


def code_names(paths: Container[str]) -> dict[str, str]:
    """Map the file names in code objects to resolved paths, for each imported file in `paths`."""
    return {file: path for file, path in loading.module_files() if path in paths}


def _by_path(run: EagerRun, watched: Mapping[str, str]) -> EagerRun:
    return replace(run, lines={watched[file]: lines for file, lines in run.lines.items()})


def _coverage(
    spots: Mapping[str, Sequence[Sequence[int]]],
    watched: Mapping[str, str],
    traced: Mapping[str, Sequence[Span]],
    overrides: Mapping[str, str],
) -> dict[str, list[dict[str, int]]]:
    """Count the operations in each spot, and how many of them Dynamo traced."""
    answer = {}
    for file, path in watched.items():
        operations = spans.operations_of(_text(path, overrides), file)
        answer[path] = spans.count(spots[path], operations, set(traced.get(file, ())))
    return answer


def _text(path: str, overrides: Mapping[str, str]) -> str:
    text = overrides.get(path)
    if text is None:
        with tokenize.open(path) as file:
            text = file.read()
    return text
