"""Verify fixes by running the original and the rewritten code side by side in the worker.

Each unit is tried on the compiled roots that reach it, nearest first, until all the code that it changes has run. Units
that affect the same root are tried together. If the roots do not run all of it, the functions on the way to it are
tried, but only with calls from the project's own code.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from dynalint.confirm.client import Answer, Worker
from dynalint.confirm.harvest import ProjectCalls
from dynalint.confirm.options import ConfirmOptions, Target
from dynalint.confirm.requests import request_for, worker_options
from dynalint.findings import Finding
from dynalint.fix.comparison import Comparison, TriedUnit
from dynalint.fix.judge import judge_compiled
from dynalint.fix.model import Unit, Verification
from dynalint.fix.sides import Key

Progress = Callable[[int, int, str], None]
# The maximum length of a worker error in characters. Some torch errors list all supported operators.
_LONGEST_REASON = 300
_MOST_TARGETS = 4
# The share of a run's time for finding inputs, which takes much longer on a busy machine.
_SEARCH = 1 / 6
_MOST_CRASHES = 4
# These are usually not caused by the user's code. The machine is under load, or torch itself crashes occasionally.
_WORKER_FAULTS = frozenset({"supervisor", "lost", "signal"})


@dataclass(frozen=True, slots=True)
class _Run:
    """The results of running a root before and after applying `units`.

    `reached` are the units that the root reaches. If other units are rejected, the results are still valid, so the root
    is not run again. It is not run again either if it `fails` before the fix.
    """

    before: Mapping[str, str]
    units: frozenset[Unit]
    reached: frozenset[Unit]
    shown: Mapping[Unit, TriedUnit]
    exact: bool
    fails: bool

    def holds_for(self, cases: Sequence[TriedUnit], comparison: Comparison) -> bool:
        """Return whether running `cases` in `comparison` would give the same results."""
        units = {case.unit for case in comparison.cases}
        same = self.exact == _exact(cases) and all(case.unit in self.shown for case in cases)
        fits = self.fails or self.reached <= units <= self.units
        return same and fits and self.before == comparison.before


class WorkerVerifier:
    """Verifies fixes in a worker process that starts on demand. Use it as a context manager to end the process.

    `roots` are the compiled roots that can be run, and `heirs` maps each root to the roots that inherit its code.
    `near` returns the roots that reach a finding, nearest first, because the finding itself records only a single call
    chain. `parts` returns the functions on the way to a finding, also nearest first. If `practical` is true,
    differences that a reviewer would accept do not refute a fix but are reported in its verification. See
    `docs/fixes.md`. Raises WorkerError if the interpreter cannot be started.
    """

    def __init__(
        self,
        options: ConfirmOptions,
        roots: Iterable[Target],
        progress: Progress | None = None,
        heirs: Mapping[Target, Sequence[Target]] | None = None,
        near: Callable[[Finding], Sequence[Target]] = lambda _: (),
        parts: Callable[[Finding], Sequence[Target]] = lambda _: (),
        *,
        practical: bool = False,
    ) -> None:
        self._options = options
        self._roots = tuple(roots)
        self._progress = progress
        self._heirs = heirs or {}
        self._near = near
        self._parts = parts
        self._only_called: set[Target] = set()
        self._practical = practical
        self._calls = ProjectCalls(options)
        self._worker: Worker | None = None
        self._obstacle: str | None = None
        self._runs: dict[Target, _Run] = {}

    def __enter__(self) -> WorkerVerifier:  # noqa: PYI034 - typing.Self is not in Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def __call__(
        self, before: Mapping[Path, str], after: Mapping[Path, str], units: Sequence[Unit]
    ) -> dict[Unit, Verification]:
        """Return the result for each unit. Together, the units turn `before` into `after`."""
        comparison = Comparison(before, after, units)
        for case in comparison.cases:
            if comparison.same_code(case.unit):
                case.verification = Verification("proven", "only comments and layout differ")
            case.targets = self._targets(case.unit)
        self._try(comparison)
        for case in comparison.cases:
            case.targets = [] if case.complete else self._parts_of(case.unit)
        self._try(comparison)
        for case in comparison.cases:
            case.obstacles += [self._obstacle] if self._obstacle else []
        return {case.unit: case.outcome() for case in comparison.cases}

    def _try(self, comparison: Comparison) -> None:
        """Run the targets of each case until nothing is left to try."""
        if any(case.targets for case in comparison.cases if not case.complete):
            self._look_for_calls(comparison)
        while not self._obstacle:
            target = next((case.targets[0] for case in comparison.cases if not case.complete and case.targets), None)
            if target is None:
                break
            cases = [case for case in comparison.cases if target in case.targets]
            pending = [case for case in cases if not case.complete]
            run = self._runs.get(target)
            if run is None or not run.holds_for(pending, comparison):
                run = self._runs[target] = self._run(target, pending, comparison)
            for case in pending:
                case.add(run.shown[case.unit])
            for case in cases:
                case.targets.remove(target)

    def _targets(self, unit: Unit) -> list[Target]:
        """Return the roots to run for a unit. Roots with a declared example come first, then the nearest."""
        found = self._reaching(unit)

        def rank(target: Target) -> tuple[bool, bool]:
            # If the number of dimensions matters, the code that calls a part shows it.
            return self._options.example_for(target) is None, unit.ranks and _is_part(target, unit)

        return sorted(found, key=rank)[:_MOST_TARGETS]

    def _parts_of(self, unit: Unit) -> list[Target]:
        """Return the functions on the way to a unit, nearest first, that are not among its roots."""
        known = self._reaching(unit)
        found = dict.fromkeys(part for linted in unit.linted for part in self._parts(linted.finding))
        parts = [part for part in found if part not in known][:_MOST_TARGETS]
        self._only_called.update(part for part in parts if part not in self._roots)
        return parts

    def _reaching(self, unit: Unit) -> list[Target]:
        """Return the roots that reach a unit, nearest first, followed by the roots that inherit their code.

        If roots have the same name, the roots in the call chain's files come first.
        """
        names: list[str] = []
        for linted in unit.linted:
            chain = [linted.finding.function, *reversed(linted.finding.region)]
            names += [name for one in chain if one for name in (one, one.rpartition(".")[0])]
        paths = {os.path.realpath(path) for path in unit.plan}
        steps = [step for linted in unit.linted for step in linted.finding.steps]
        paths.update(os.path.realpath(self._options.directory / step.path) for step in steps)

        def rank(target: Target) -> tuple[int, bool, Target]:
            return names.index(target.qualname), os.path.realpath(target.path) not in paths, target

        way = sorted((target for target in self._roots if target.qualname in names), key=rank)
        near = [target for linted in unit.linted for target in self._near(linted.finding) if target in self._roots]
        heirs = (heir for target in way for heir in self._heirs.get(target, ()))
        return list(dict.fromkeys([*way[:1], *near, *way, *heirs]))

    def _look_for_calls(self, comparison: Comparison) -> None:
        """Search for calls to the targets in the project's own code. Targets with a call are run first.

        Other targets are run with guessed inputs, but parts are not, because only the project knows their arguments.
        """
        worker = self._started()
        if worker is None:
            return
        targets = [target for case in comparison.cases for target in case.targets if not case.complete]
        self._calls.look_for(targets, worker, partial(self._report, 0, len(comparison.cases)))
        for case in comparison.cases:
            case.targets = [one for one in case.targets if one not in self._only_called or self._calls.of(one)]
            case.targets.sort(key=lambda one: self._options.example_for(one) is None and not self._calls.of(one))

    def _started(self) -> Worker | None:
        """Return the worker. If it has no torch, record the obstacle and return None."""
        if self._worker is None:
            self._worker = self._options.executor.worker(worker_options(self._options))
        if self._worker.hello.torch is None:
            self._obstacle = f"torch is not installed for {self._options.python}"
            return None
        return self._worker

    def _report(self, done: int, total: int, target: Target) -> None:
        if self._progress is not None:
            self._progress(done, total, target.name)

    def _run(self, target: Target, cases: Sequence[TriedUnit], comparison: Comparison) -> _Run:
        """Run a root before and after the fix, and return what this showed about each case."""
        self._report(sum(case.complete for case in comparison.cases), len(comparison.cases), target)
        shown = {case.unit: case.fresh() for case in cases}
        answer = self._ask(target, cases, comparison)
        if answer is not None:
            self._record(answer, target, list(shown.values()))
        passed = frozenset(answer.parts.get("marks", ())) if answer is not None else frozenset()
        reached = {case.unit for case in comparison.cases if passed & {mark for mark, _ in case.sides}}
        reached |= {case.unit for case in comparison.cases if target in self._reaching(case.unit)}
        units = frozenset(case.unit for case in comparison.cases)
        problem = answer.parts.get("problem") if answer is not None else None
        fails = problem is not None and problem["version"] == "original"
        return _Run(comparison.before, units, frozenset(reached), shown, _exact(cases), fails)

    def _record(self, answer: Answer, target: Target, cases: Sequence[TriedUnit]) -> None:
        """Record what an answer shows about each case."""
        problem = answer.parts.get("problem")
        if problem is not None and problem["version"] == "rewritten":
            for case in cases:
                case.refute(f"{target.name} no longer runs: {problem['message']}", raises=True)
            return
        obstacle = _obstacle(answer, target)
        seen = {(one[0], one[1]) for one in answer.parts.get("seen", ())}
        touched = [case for case in cases if not case.sides or seen & case.sides.keys()] or list(cases)
        difference = answer.parts.get("difference")
        for case in touched:
            if difference is not None and difference["stable"]:
                what = f"{target.name}: {difference['what']}, with {difference['where']}"
                what += ", which `--equivalence practical` accepts" if difference["passes"] else ""
                case.refute(what, raises=difference["raises"])
            elif obstacle is not None and not answer.done and self._options.example_for(target) is not None:
                # Another root may not run what is different in this one, which the user wants to be run.
                case.leave_open(obstacle)
            elif obstacle is not None:
                case.obstacles.append(obstacle)
            else:
                case.seen |= seen & case.sides.keys()
                case.inputs += answer.parts["ran"]["inputs"]
                judge_compiled(case, answer.parts["compiled"], target.name)
                case.notes += [*self._origin(target, answer), *_limits(answer)]
                case.passed.update(answer.parts["ran"]["passed"])
        if difference is None and obstacle is None:
            for case in cases:
                case.inputs += 0 if case in touched else answer.parts["ran"]["inputs"]

    def _origin(self, target: Target, answer: Answer) -> Iterator[str]:
        """Yield the project's own call that the inputs in `answer` are derived from, if there is one."""
        if any(call["text"] == answer.parts.get("text") for call in self._calls.of(target)):
            yield f"starting from {answer.parts['text']}"

    def _ask(self, target: Target, cases: Sequence[TriedUnit], comparison: Comparison) -> Answer | None:
        worker = self._started()
        if worker is None:
            return None
        answer = _asked(worker, self._request(target, cases, comparison))
        if answer.outcome == "refused":
            self._obstacle = f"there is no working sandbox on this system ({answer.ending['reason']})"
            return None
        return answer

    def _request(self, target: Target, cases: Sequence[TriedUnit], comparison: Comparison) -> dict[str, Any]:
        options = self._options
        given = {os.path.realpath(path): text for path, text in options.overrides.items()}
        asked = request_for(replace(target, path=Path(os.path.realpath(target.path))), options, self._calls.of(target))
        return {
            **asked,
            "guesses": asked["guesses"] and target not in self._only_called,
            "overrides": {**given, **comparison.before},
            "marked": {**given, **comparison.marked},
            "rewritten": {**given, **comparison.after},
            "turned": comparison.turned(given),
            "sides": [
                list(key) for case in cases for key in sorted(self._reachable(target, case, comparison), key=str)
            ],
            "changed": {path: sorted(lines) for path, lines in _new_lines(cases).items()},
            "anyway": any(not case.sides for case in cases),
            "practical": self._practical,
            "half": any("float16" in text for text in comparison.after.values()),
            "ranks": any(case.unit.ranks for case in cases),
            "exact": _exact(cases),
            "numbers": sorted({name for case in cases for name in case.unit.new_state}),
            "unmoved": sorted({name for case in cases for name in case.unit.unmoved}),
            "methods": _methods(cases),
            "search_seconds": options.timeout * _SEARCH,
        }

    def _reachable(self, target: Target, case: TriedUnit, comparison: Comparison) -> Sequence[Key]:
        """Return the code to run for a case, except what an earlier run of the same original searched for in vain."""
        run = self._runs.get(target)
        known = run.shown.get(case.unit) if run is not None and run.before == comparison.before else None
        keys = [*case.sides]
        if known is None or known.verification is not None or not known.seen:
            return keys
        return [key for key, old in zip(keys, known.sides, strict=True) if old in known.seen]


def _is_part(target: Target, unit: Unit) -> bool:
    """Return whether code of the project calls a root, which then gets arguments with the dimensions of this code."""
    outermost = [linted.finding.region[0] for linted in unit.linted if linted.finding.region]
    return bool(outermost) and all(target.qualname not in (one, one.rpartition(".")[0]) for one in outermost)


def _new_lines(cases: Iterable[TriedUnit]) -> dict[str, set[int]]:
    lines: dict[str, set[int]] = {}
    for case in cases:
        for path, own in case.new_lines.items():
            lines.setdefault(path, set()).update(own)
    return lines


def _exact(cases: Iterable[TriedUnit]) -> bool:
    return all(case.unit.exact for case in cases)


def _limits(answer: Answer) -> Iterator[str]:
    """Yield what makes a result that is based on `answer` less certain."""
    ran, left_out = answer.parts["ran"], answer.parts["left_out"]
    if ran["rounded"]:
        yield "gradients equal up to rounding"
    if ran["stride"] > 1:
        yield f"one in {ran['stride']} of the usual inputs, because it is slow"
    if left_out:
        yield f"inputs that crash the original code were skipped ({', '.join(left_out)})"


def _asked(worker: Worker, request: Mapping[str, Any]) -> Answer:
    """Send `request`. If the process is lost, ask again, and then leave out the inputs that crash torch.

    Inputs that crash the original code prove nothing about a fix. The answer lists the inputs that were left out. If a
    process crashes later without having called the original code with such an input, it is asked once more, because
    some releases of torch crash at random.
    """
    left_out: list[str] = []
    answer = worker.ask("operations.verifying:verify", {**request, "left_out": left_out})
    if answer.outcome in _WORKER_FAULTS and "compiled" not in answer.parts:
        answer = worker.ask("operations.verifying:verify", {**request, "left_out": left_out})
    unexplained = not answer.parts.get("trying")
    while answer.outcome == "signal" and len(left_out) < _MOST_CRASHES:
        if answer.parts.get("trying"):
            left_out.append(answer.parts["trying"])
        elif unexplained or "compiled" in answer.parts:
            break
        else:
            unexplained = True
        answer = worker.ask("operations.verifying:verify", {**request, "left_out": left_out})
    return replace(answer, parts={**answer.parts, "left_out": left_out})


def _methods(cases: Sequence[TriedUnit]) -> list[str]:
    """Return methods with changed code, such as `reset`, that a call to the target may never reach."""
    known = {linted.finding.function for case in cases for linted in case.unit.linted}
    names = {side.function for case in cases for side in case.sides.values()} - known
    return sorted(name for name in names if "." in name and not name.endswith((".__init__", ".forward")))


def _obstacle(answer: Answer, target: Target) -> str | None:
    """Return why an answer does not show whether the versions are equal, or None if it does."""
    parts, ending = answer.parts, answer.ending
    if "problem" in parts:
        # The message is the code's own, and the sentence goes on.
        return f"{target.name} cannot be run: {parts['problem']['message'].removesuffix('.')}"
    if parts.get("difference") is not None:
        return f"{target.name} gives different results in every run ({parts['difference']['what']})"
    if "ran" in parts and not parts["ran"]["returned"]:
        return f"{target.name} raises {parts['ran']['error']} on every input"
    if answer.done or "compiled" in parts:
        return None  # Later steps decide.
    how = {
        "timeout": f"it took longer than {ending.get('seconds', 0):g} seconds",
        "budget": f"the budget of {ending.get('seconds', 0):g} s of processor time is used up; --budget sets it",
        "memory": "it took too much memory",
        "processes": "it started too many processes",
        "exit": f"it exited with status {ending.get('status')}",
        "signal": f"it was killed by {ending.get('signal')}",
        "failed": textwrap.shorten(str(ending.get("reason")), _LONGEST_REASON, placeholder=" ..."),
    }.get(answer.outcome, f"the worker ended ({answer.outcome})")
    return f"{target.name} could not be run to completion: {how} while {answer.stage}"
