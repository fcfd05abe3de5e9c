"""Check fixes with the project's own tests.

All tests run once without the fixes, to find out which ones pass and which of the changed functions they call. Tests
that call a changed function then run again with all fixes applied. If a test that passed before now fails, the rounds
of fixing are repeated with the failing tests as an additional check, so that only the fixes at fault are dropped.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dynalint.analysis.source import SourceFile
from dynalint.findings import Finding
from dynalint.fix.model import Fixed, FixResult, Linted, Unit, Verification, Verifier
from dynalint.fix.suite_runs import Function, NotTestedError, SuiteCommand, SuiteRun

# The time limit for all tests in seconds. With fixes applied, they may take longer than usual by this factor.
_MOST_SECONDS, _FACTOR, _SPARE = 3600.0, 4, 60
_MOST_TURNS = 8
_SHOWN = 3
_NO_TESTS = 5

Again = Callable[[Verifier], FixResult]
Progress = Callable[[int, int, str], None]


class Suite:
    """Judges the fixes for `linted` by the tests that a command runs."""

    def __init__(self, command: SuiteCommand, linted: Iterable[Linted], progress: Progress | None = None) -> None:
        self._command = command
        self._progress = progress
        self._sources: dict[Path, SourceFile] = {}
        self._at: dict[tuple[str, int], set[Function]] = {}
        self._named: dict[tuple[str, str], set[Function]] = {}
        for one in linted:
            if one.rewrite is not None:
                self._note(one)
        self._suspects: set[str] = set()
        self._memory: dict[int, list[Verification]] = {}
        self._before: SuiteRun | None = None

    def _note(self, one: Linted) -> None:
        """Record the functions that a fix changes, both by the finding's position and by its function."""
        assert one.rewrite is not None
        finding, places = one.finding, {(one.file.path, one.finding.line)}
        self._sources[one.file.path] = one.file
        for replacement in one.rewrite.replacements:
            self._sources[replacement.file.path] = replacement.file
            places.add((replacement.file.path, replacement.file.position(replacement.start)[0]))
        functions = {
            (self._command.below(path), first)
            for path, line in places
            if (first := _first_line(self._sources[path], line)) is not None
        }
        self._at.setdefault((finding.path, finding.line), set()).update(functions)
        self._named.setdefault((finding.path, finding.function), set()).update(functions)

    def try_command(self) -> None:
        """Find out whether the command can run, before anything is verified. Under pytest, only collect the tests.

        Raises NotTestedError and WorkerError like `kept`.
        """
        tried = self._run({}, [], _MOST_SECONDS)
        self._check(tried, tried.collected)
        self._before = None if tried.under_pytest else tried

    def kept(self, result: FixResult, again: Again, verify: Verifier | None) -> FixResult:
        """Return the part of `result` that is accepted. `again` repeats the rounds of fixing with a different verifier.

        Raises:
            NotTestedError: If the tests cannot be run, or they do not prove anything.
            WorkerError: If the interpreter cannot be started.
        """
        if not result.fixed:
            return result
        before = self._before or self._run({}, None, _MOST_SECONDS)
        self._check(before, len(before.passed) + len(before.failed))
        for _ in range(_MOST_TURNS):
            texts = {file.source.path: file.data for file in result.files}
            failing = self._newly_failing(before, texts, self._relevant(before, result))
            if not failing:
                return self._with_passing_tests(before, result)
            self._suspects |= failing.keys()
            result = again(lambda old, new, units: self._judged(before, old, new, units, verify))
        raise NotTestedError(f"different tests fail with each selection of fixes: {_listed(sorted(self._suspects))}")

    def remembering(self, verify: Verifier) -> Verifier:
        """Wrap `verify` so that the same comparison never runs twice."""

        def verified(
            old: Mapping[Path, str], new: Mapping[Path, str], units: Sequence[Unit]
        ) -> Mapping[Unit, Verification]:
            key = hash(
                (frozenset(old.items()), frozenset(new.items()), repr([sorted(unit.plan.items()) for unit in units]))
            )
            if key not in self._memory:
                verifications = verify(old, new, units)
                self._memory[key] = [verifications[unit] for unit in units]
            return dict(zip(units, self._memory[key], strict=True))

        return verified

    def _check(self, before: SuiteRun, tests: int) -> None:
        """Raise NotTestedError if a run without fixes cannot serve as a baseline. `tests` is how many it has."""
        said = f" ({before.said})" if before.said else ""
        if before.under_pytest and not tests:
            ended = f"it exited with status {before.status}"
            why = "no tests were collected" if before.status in (0, _NO_TESTS) else ended
            if before.failed:
                file, reason = min(before.failed.items())
                why = f"{file} cannot be imported ({reason})"
            raise NotTestedError(f"`{self._command.command}` did not run any tests: {why}{said}")
        if not before.under_pytest and before.status:
            raise NotTestedError(
                f"`{self._command.command}` exited with status {before.status} even without fixes{said}; dynalint can "
                "only tell which tests pass if it runs pytest"
            )

    def _relevant(self, before: SuiteRun, result: FixResult) -> list[str]:
        """Return the tests that pass without fixes and that call a function changed by a fix in `result`."""
        if not before.under_pytest:
            return sorted(before.passed)
        places = set().union(*(self._places(one.finding) for one in result.fixed))
        return [test for test in sorted(before.passed) if before.called[test] & places]

    def _places(self, finding: Finding) -> set[Function]:
        return self._at.get((finding.path, finding.line)) or self._named.get((finding.path, finding.function), set())

    def _newly_failing(self, before: SuiteRun, texts: Mapping[Path, bytes], tests: Sequence[str]) -> dict[str, str]:
        """Return the tests that fail with `texts` but pass without them, and why. Each outcome is confirmed twice."""
        ran = before
        for changed in (True, False, True):
            if not tests:
                break
            only = tests if before.under_pytest else None
            ran = self._run(texts if changed else {}, only, min(_MOST_SECONDS, _FACTOR * before.spent + _SPARE))
            tests = [test for test in tests if (test in ran.passed) != changed]
        return {test: ran.failed.get(test, "it did not run") for test in tests}

    def _judged(
        self,
        before: SuiteRun,
        old: Mapping[Path, str],
        new: Mapping[Path, str],
        units: Sequence[Unit],
        verify: Verifier | None,
    ) -> Mapping[Unit, Verification]:
        """Judge units by the tests that failed. If those tests pass now, use `verify`."""
        sources = {**self._sources, **{path: one for unit in units for path, one in unit.sources.items()}}
        data = {path: sources[path].encode(text) for path, text in new.items()}
        failing = self._newly_failing(before, data, sorted(self._suspects))
        if not failing:
            return verify(old, new, units) if verify is not None else {unit: _not_run(unit) for unit in units}
        called = frozenset[Function]().union(*(before.called.get(test, frozenset()) for test in failing))
        near = [unit for unit in units if called & self._changed_by(unit)] or units
        test, reason = min(failing.items())
        more = f" and {len(failing) - 1} more" if len(failing) > 1 else ""
        verification = Verification(
            "refuted", f"{test}{more} passes without it and fails with it: {reason.rstrip('.')}", raises=True
        )
        return {
            unit: verification if unit in near else Verification("proven", "no failing test calls it") for unit in units
        }

    def _changed_by(self, unit: Unit) -> set[Function]:
        """Look up the functions that a unit changes by name, because earlier fixes may have moved their lines."""
        findings = (one.finding for one in unit.linted)
        return set().union(*(self._named.get((one.path, one.function), set()) for one in findings))

    def _with_passing_tests(self, before: SuiteRun, result: FixResult) -> FixResult:
        """Add to each fix in `result` the tests that support it."""
        fixed = tuple(self._with_tests(before, one) for one in result.fixed)
        notes = [self._summary(before, result)]
        silent = [one.finding for one in fixed if one.finding.fix is None or not one.finding.fix.tests]
        if silent:
            listed = _listed([f"{one.path}:{one.line} {one.code}" for one in silent], most=10)
            notes.append(f"no passing test reaches {len(silent)} of the fixes: {listed}")
        if before.failed:
            fail = "1 test fails" if len(before.failed) == 1 else f"{len(before.failed)} tests fail"
            notes.append(f"{fail} even without the fixes, which proves nothing: {_listed(sorted(before.failed))}")
        return replace(result, fixed=fixed, notes=(*result.notes, *notes))

    def _with_tests(self, before: SuiteRun, fixed: Fixed) -> Fixed:
        finding, places = fixed.finding, self._places(fixed.finding)
        if finding.fix is None:
            return fixed
        tests = sorted(before.passed)
        if before.under_pytest:
            tests = [test for test in tests if before.called[test] & places]
        return replace(fixed, finding=replace(finding, fix=replace(finding.fix, tests=tuple(tests))))

    def _summary(self, before: SuiteRun, result: FixResult) -> str:
        where = f"in a copy of the project, {'in the sandbox' if before.sandboxed else 'without a sandbox'}"
        if not before.under_pytest:
            return f"`{self._command.command}` passes both with and without the fixes, {where}"
        number, speaking = len(before.passed) + len(before.failed), len(self._relevant(before, result))
        ran = f"{number} test{'' if number == 1 else 's'} ran {where}"
        if before.stopped:
            ran += f"; {before.stopped} did not finish, so those after it did not run (`--deselect` leaves it out)"
        if not speaking:
            return f"{ran}; none of the passing tests calls changed code"
        return f"{ran}; {speaking} of them call{'s' if speaking == 1 else ''} changed code, and passed before and after"

    def _run(self, texts: Mapping[Path, bytes], only: Sequence[str] | None, seconds: float) -> SuiteRun:
        if self._progress is not None:
            self._progress(0, 1, f"{self._command.command} with{'' if texts else 'out'} the fixes")
        watched = frozenset[Function]().union(*self._at.values())
        return self._command.run(texts, only, watched, seconds)


def _not_run(unit: Unit) -> Verification:
    """Return the result to use if no comparison was requested. The fix may be applied unless it has to be verified."""
    return Verification("unverifiable" if unit.safety == "conditional" else "proven", "only the tests were run")


def _first_line(file: SourceFile, line: int) -> int | None:
    """Return the first line of the innermost function that contains `line`, or None if it is not in a function."""
    inner: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    for node in _definitions(file):
        if _start(node) <= line <= (node.end_lineno or node.lineno) and (inner is None or _start(node) > _start(inner)):
            inner = node
    return None if inner is None else _start(inner)


def _definitions(file: SourceFile) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    try:
        tree = ast.parse(file.text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _start(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(one.lineno for one in node.decorator_list)])


def _listed(names: Sequence[str], most: int = _SHOWN) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
