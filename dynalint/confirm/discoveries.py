"""Findings that only running code can show: breaks (DYN001), recompilations (DYN002), differences (DYN012)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dynalint.confirm.recompiles import guard, hint, is_about, places
from dynalint.confirm.results import TargetResult
from dynalint.confirm.verdicts import Confirmation, coverage_of
from dynalint.confirm.wording import break_text, comparison_text, effect_text, failure_text
from dynalint.confirm.worker.dynamo.records import Break, Compile, EagerComparison, StackFrame
from dynalint.findings import EFFECTS, Category, Evidence, Finding, Step

# Errors in loops, context managers, inlined calls and exceptions that are caused by an earlier break.
CONSEQUENCES = frozenset(("GB7000", "GB0066", "GB0065", "GB0088"))
_CALLED = ", called from here"
# An operation that Dynamo runs on fake tensors, with an exception that the code itself may not even let through.
_FAILS_IN_TRACING = "TorchRuntimeError"
# Slow models are only called this many times.
_SETTLING = 2


def discoveries(confirmation: Confirmation, directory: Path) -> list[Finding]:
    """Return a finding for each location and problem without a finding. Paths are relative to `directory`."""
    found: dict[tuple[str, int, int | str], Finding] = {}
    for result in (one for one in confirmation.results if one.eager is not None and not one.part):
        writer = _FindingWriter(confirmation, result, directory)
        for finding in (*_breaks(writer), *_recompiles(writer), *_differences(writer), *_failures(writer)):
            # A call of a library is one place to change, however often and wherever the library breaks the graph.
            problem = finding.column if _CALLED in finding.message else finding.message
            found.setdefault((finding.path, finding.line, problem), finding)
    return list(found.values())


@dataclass(frozen=True)
class _FindingWriter:
    """Writes the findings for a single result."""

    confirmation: Confirmation
    result: TargetResult
    directory: Path

    def path(self, file: str) -> str:
        """Return a path as it is written in findings."""
        path = Path(file)
        real = Path(os.path.realpath(self.directory))
        return path.relative_to(real).as_posix() if path.is_relative_to(real) else path.as_posix()

    def columns(self, frame: StackFrame) -> tuple[int, int]:
        """Return the columns of the code that broke, or of the whole line if Dynamo does not report columns."""
        sources = self.confirmation.sources
        if frame.column is not None and frame.end_column is not None:
            return sources.character_columns(frame.file, frame.line, frame.column, frame.end_column)
        line = sources.line(frame.file, frame.line)
        start = len(line) - len(line.lstrip()) + 1
        return start, max(len(line.rstrip()) + 1, start)

    def finding(self, frame: StackFrame, code: str, name: str, category: Category, **more: Any) -> Finding:
        """Return a finding at a frame, with the remaining values. It is an error in the frame's function by default."""
        start, end = self.columns(frame)
        function = self.confirmation.sources.function_at(frame.file, frame.line) or frame.function
        values: dict[str, Any] = {"severity": "error", "function": function, "region": (function,), **more}
        place: dict[str, Any] = {"line": frame.line, "column": start, "end_line": frame.line, "end_column": end}
        return Finding(path=self.path(frame.file), code=code, name=name, category=category, **place, **values)

    def steps(self, stack: tuple[StackFrame, ...]) -> tuple[Step, ...]:
        """Return the call chain through the user's own functions, outermost function first."""
        own = [frame for frame in stack if self.confirmation.is_place(frame.file, frame.line)]
        names = [self.confirmation.sources.function_at(frame.file, frame.line) or frame.function for frame in own]
        found = {name: Step(name, self.path(frame.file), frame.line) for name, frame in zip(names, own, strict=True)}
        return tuple(found.values())


def _breaks(writer: _FindingWriter) -> list[Finding]:
    confirmation, result = writer.confirmation, writer.result
    breaks = result.default.breaks if result.default is not None else ()
    causes = {
        (frame.file, frame.function)
        for seen in breaks
        if seen.gb not in CONSEQUENCES and (frame := confirmation.own_frame(seen.stack)) is not None
    }
    found: dict[tuple[Any, ...], tuple[StackFrame, list[Break]]] = {}
    for seen in breaks:
        frame = confirmation.own_frame(seen.stack)
        if frame is None or confirmation.attributed(seen.stack, seen.gb):
            continue
        if seen.gb in CONSEQUENCES and (frame.file, frame.function) in causes:
            continue
        place = frame.file, frame.line, frame.column, _kind(seen) if seen.stack[-1] == frame else ""
        found.setdefault(place, (frame, []))[1].append(seen)
    return [_break_finding(writer, some, frame) for frame, some in found.values()]


def _break_finding(writer: _FindingWriter, some: Sequence[Break], frame: StackFrame) -> Finding:
    seen = min(some, key=lambda one: EFFECTS.index(one.effect) if one.effect in EFFECTS else len(EFFECTS))
    result, steps = writer.result, writer.steps(seen.stack)
    region = tuple(step.function for step in steps)
    error = result.fullgraph.error if result.fullgraph is not None else None
    place = writer.confirmation.own_frame(error.stack) if error is not None else None
    breaks_whole = place is not None and (place.file, place.line) == (frame.file, frame.line)
    passes = result.fullgraph is not None and error is None
    fullgraph: Literal["passes", "breaks"] | None = "passes" if passes else "breaks" if breaks_whole else None
    effect = next((one for one in EFFECTS if one == seen.effect), None)
    innermost = seen.stack[-1]
    where = "" if innermost == frame else f" in {innermost.function}{_CALLED}"
    others = "" if innermost == frame or len(some) == 1 else f" (and {len(some) - 1} more there)"
    return writer.finding(
        frame,
        "DYN001",
        "graph-break",
        "graph-break",
        severity="warning" if passes and seen.effect == "split" else "error",
        message=f"Dynamo breaks the graph{where}: {_kind(seen)}{others}",
        help=" ".join(text for text in (break_text(seen), effect_text(seen)) if text),
        function=region[-1] if region else frame.function,
        region=region,
        steps=steps,
        gb=(seen.gb,) if seen.gb else (),
        evidence=Evidence("confirmed", f"Seen with {result.inputs}.", seen.gb, result.torch, fullgraph, 0, effect),
    )


def _kind(seen: Break) -> str:
    """Return the type of a break as a phrase, without the full stop that older releases add."""
    return seen.gb_type.strip().rstrip(".") or "for an unknown reason"


def _recompiles(writer: _FindingWriter) -> list[Finding]:
    """Report code that still recompiles on the last of the identical calls.

    Two calls do not show this, because many models only recompile on the second.
    """
    result = writer.result
    found = []
    for again in result.recompiles:
        if again.call != result.same - 1 or result.same <= _SETTLING:
            continue
        if any(is_about(again, placed, writer.confirmation.sources) for placed in writer.confirmation.placed):
            continue
        found += _recompile_findings(writer, again)
    return found


def _differences(writer: _FindingWriter) -> list[Finding]:
    """Report that compiled code gives different results, unless a miscompile finding in code that ran explains it."""
    result, found = writer.result, writer.result.comparison
    if found is None or found.same or found.place is None:
        return []
    if not writer.confirmation.is_place(found.place.file, found.place.line):
        return []
    for placed in writer.confirmation.placed:
        if placed.finding.category == "miscompile" and coverage_of(placed, result).traced:
            return []
    function = writer.confirmation.sources.function_at(found.place.file, found.place.line) or found.place.function
    text = comparison_text(found)
    return [
        writer.finding(
            found.place,
            "DYN012",
            "miscompile",
            "miscompile",
            message=f"When compiled, {function} {_does(found)}",
            help=f"{text[0].upper()}{text[1:]}.",
            evidence=Evidence("confirmed", f"Seen with {result.inputs}.", None, result.torch, None, 0),
        )
    ]


def _failures(writer: _FindingWriter) -> list[Finding]:
    """Report that code that runs in eager mode raises an exception while Dynamo traces it."""
    confirmation, result = writer.confirmation, writer.result
    error = result.default.error if result.default is not None else None
    frame = confirmation.own_frame(error.stack) if error is not None and error.type == _FAILS_IN_TRACING else None
    if error is None or frame is None or (result.comparison is not None and not result.comparison.same):
        return []
    own = (one for one in error.stack if confirmation.is_place(one.file, one.line))
    if any(confirmation.sources.is_handled(one.file, one.line) for one in own):
        return []  # eager code may raise an exception there, too, and handle it
    function = confirmation.sources.function_at(frame.file, frame.line) or frame.function
    return [
        writer.finding(
            frame,
            "DYN012",
            "miscompile",
            "miscompile",
            message=f"When compiled, {function} raises {error.type}, which eager code does not",
            help=failure_text(error),
            evidence=Evidence("confirmed", f"Seen with {result.inputs}.", None, result.torch, None, 0),
        )
    ]


def _does(found: EagerComparison) -> str:
    if found.what == "exception":
        return found.detail.removeprefix("it ")
    return f"gives different results from eager code: {found.what} differs"


def _recompile_findings(writer: _FindingWriter, again: Compile) -> list[Finding]:
    """Return a finding for a recompilation, or an empty list if it is not in the user's own code."""
    result = writer.result
    own = [
        (file, line)
        for file, line in places(again)
        if Path(file).is_absolute() and writer.confirmation.is_place(os.path.realpath(file), line)
    ]
    file, line = own[-1] if own else (again.file, again.line)
    if not writer.confirmation.is_place(os.path.realpath(file), line):
        return []
    frame = StackFrame(os.path.realpath(file), line, again.function)
    count = sum(other.file == again.file and other.line == again.line for other in result.recompiles)
    function = writer.confirmation.sources.function_at(frame.file, line) or again.function
    seen = f"Seen in {result.same} identical calls: {result.inputs}."
    return [
        writer.finding(
            frame,
            "DYN002",
            "recompile",
            "recompile",
            message=f"Dynamo compiles {function} again on every call, because of the guard {guard(again)}",
            help=hint(again),
            evidence=Evidence("confirmed", seen, None, result.torch, None, count),
        )
    ]
