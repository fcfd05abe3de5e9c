"""Derive each finding's verdict from the results. Nothing is run here.

A break belongs to the innermost frame in the user's own code. A finding is `confirmed` if Dynamo broke the graph or
recompiled there. It is `refuted` only if Dynamo traced every operation in its range in a frame that it captured, and
`unreached` if the function that contains it ran without reaching it. Otherwise, it is `unconfirmed`, with the reason.
If code breaks only when another break no longer makes its frame fall back to eager, it costs nothing yet, so it is
confirmed as advice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dynalint.confirm.located import Located, is_way_to
from dynalint.confirm.options import Target
from dynalint.confirm.recompiles import blamed, breaks_at, guard
from dynalint.confirm.results import Coverage, Spot, TargetResult
from dynalint.confirm.sources import UserSources
from dynalint.confirm.wording import break_text, comparison_text, effect_text, problem_text, uncalled_text
from dynalint.confirm.worker.dynamo.records import Break, RunFailure, StackFrame
from dynalint.findings import EFFECTS, Effect, Evidence, Finding

CONFIRMABLE = ("graph-break", "recompile", "miscompile")

# The precedence of verdicts if targets disagree. If a target ran the line but could not be judged, the finding stays in
# the report even if another target traced the line completely.
_CONFIRMED, _LATENT, _UNSEEN, _REFUTED, _UNREACHED, _FAILED, _UNCALLED = 6, 5, 4, 3, 2, 1, 0
_WAYS = 4  # The maximum number of roots to try for a finding, nearest first.
_DECIDED = (_CONFIRMED, _LATENT, _REFUTED)
_NOT_REACHED = (_UNREACHED, _FAILED, _UNCALLED)
_BREAKS = frozenset(("Unsupported", "UserError"))
# If a target fails in one of these phases, parts of it may still run: those in other files, if it cannot be imported.
_NO_CALL = ("import", "build", "inputs", "run", "process")


@dataclass(frozen=True)
class Confirmation:
    """The input for all verdicts. `is_own` indicates whether a resolved path belongs to the user's own code."""

    placed: Sequence[Located]
    results: Sequence[TargetResult]
    sources: UserSources
    is_own: Callable[[str], bool]

    def own_frame(self, stack: Iterable[StackFrame]) -> StackFrame | None:
        """Return the innermost frame in the user's own code."""
        return next((frame for frame in reversed(tuple(stack)) if self.is_place(frame.file, frame.line)), None)

    def is_place(self, file: str, line: int) -> bool:
        """Return whether this line exists in the user's own code. A worker may have invented it."""
        return self.is_own(file) and self.sources.has_line(file, line)

    def attributed(self, stack: Sequence[StackFrame], gb: str | None) -> list[Located]:
        """Return the findings that a break belongs to, matched by line, then by column, then by the break's id."""
        frame = self.own_frame(stack)
        if frame is None:
            return []
        found = [p for p in self.placed if p.finding.category in CONFIRMABLE[:2] and p.covers(frame.file, frame.line)]
        if not found:
            return [p for p in self.placed if p.finding.inside and gb in p.finding.gb and _is_on(p, stack)]
        exact = [p for p in found if _overlaps(p.spot, frame)]
        found = exact or found
        expected = [p for p in found if gb in p.finding.gb]
        if expected or exact or (frame.column is not None and frame.end_column is not None):
            return expected or exact
        # A finding may span a block. A different kind of break further down in the block is unrelated.
        return [p for p in found if not p.finding.gb or p.finding.line == frame.line]


def _is_on(placed: Located, stack: Iterable[StackFrame]) -> bool:
    return any(placed.covers(frame.file, frame.line) for frame in stack)


def _overlaps(spot: Spot, frame: StackFrame) -> bool:
    if frame.column is None or frame.end_column is None:
        return False
    start, end = (frame.line, frame.column), (frame.line, max(frame.end_column, frame.column + 1))
    if frame.end_line is not None:
        end = frame.end_line, frame.end_column
    return start < spot[2:] and spot[:2] < end


def with_verdicts(confirmation: Confirmation) -> list[Finding]:
    """Return the findings with their verdicts. Findings without a result are unchanged."""
    verdicts = zip(confirmation.placed, _best(confirmation), strict=True)
    return [one.finding if best is None else _with_verdict(one.finding, best) for one, best in verdicts]


def not_run(confirmation: Confirmation) -> list[Located]:
    """Return findings whose roots could not be run, or did not call the function that contains the finding.

    A root that is a local function cannot even be a target.
    """
    problems = [(one.target, one.problem) for one in confirmation.results if one.problem is not None]
    failed = [(one, why.phase) for one, why in problems if why.phase in _NO_CALL and why.outcome != "budget"]

    def is_stuck(placed: Located, best: Verdict | None) -> bool:
        if best is None:
            return not placed.leads and placed.finding.category in CONFIRMABLE
        if best[0] == _UNCALLED:
            return True
        ways = [(one, how) for one, how in failed if is_way_to(one, placed)]
        return best[0] in _NOT_REACHED and any(how != "import" or str(one.path) != placed.path for one, how in ways)

    found = zip(confirmation.placed, _best(confirmation), strict=True)
    return [placed for placed, best in found if is_stuck(placed, best)]


def undecided(confirmation: Confirmation, targets: Iterable[Target]) -> dict[Target, dict[str, list[list[int]]]]:
    """Return the targets that should reach undecided findings, with the lines of these findings by file."""
    known = dict.fromkeys(targets)
    wanted: dict[Target, dict[str, list[list[int]]]] = {}
    for placed, best in zip(confirmation.placed, _best(confirmation), strict=True):
        if placed.finding.category in CONFIRMABLE and (best is None or best[0] not in _DECIDED):
            # A class may inherit its compiled method. In that case, only its own instances run its code.
            own = [one for one in known if is_way_to(one, placed)]
            nearest = [one for one in placed.leads if one in known][:_WAYS]
            for target in dict.fromkeys([*own, *nearest]):
                spans = wanted.setdefault(target, {}).setdefault(placed.path, [])
                spans.append([placed.finding.line, placed.finding.end_line])
    return wanted


def spots_of(placed: Iterable[Located]) -> dict[str, list[list[int]]]:
    """Return the ranges to judge, by file, sorted and without duplicates."""
    ranges: dict[str, set[tuple[int, int, int, int]]] = {}
    for one in placed:
        if one.finding.category in CONFIRMABLE:
            ranges.setdefault(one.path, set()).add(one.spot)
    return {path: [list(spot) for spot in sorted(found)] for path, found in sorted(ranges.items())}


def unconfirmed(finding: Finding, detail: str) -> Finding:
    """Mark a finding as unconfirmed, for a reason that applies to all findings."""
    if finding.category not in CONFIRMABLE:
        return finding
    return replace(finding, evidence=Evidence("unconfirmed", detail))


def _best(confirmation: Confirmation) -> list[Verdict | None]:
    """Return the verdict with the highest precedence for each finding."""
    attributions = [_attributions(confirmation, result) for result in confirmation.results]
    found = []
    for placed in confirmation.placed:
        verdicts = []
        for result, breaks in zip(confirmation.results, attributions, strict=True):
            verdict = _verdict(confirmation, placed, result, breaks.get(id(placed), []))
            # If a part was called separately, only a break counts, because real callers may pass different arguments.
            # What the project's own call of a part does not reach is told, too.
            counts = verdict is not None and (not result.part or verdict[0] >= _LATENT)
            if verdict is None or not (counts or (result.part == "called" and verdict[0] == _UNREACHED)):
                continue
            # Only a target that should reach the code may refute a finding, because any code that runs could forge
            # results.
            meant = str(result.target.path) == placed.path or result.target in placed.leads
            if verdict[0] != _REFUTED or meant or _concerns(result, placed):
                verdicts.append(verdict)
        best = max(verdicts, key=lambda verdict: verdict[0], default=None)
        effect = _largest([evidence.effect for _, evidence in verdicts])
        found.append(best if best is None or effect is None else (best[0], replace(best[1], effect=effect)))
    return found


def _largest(effects: Collection[str | None]) -> Effect | None:
    """Return the most costly of the known effects of a break. A worker may have invented others."""
    return next((one for one in EFFECTS if one in effects), None)


def _with_verdict(finding: Finding, verdict: Verdict) -> Finding:
    rank, evidence = verdict
    if rank == _LATENT:
        return replace(finding, category="advice", severity="info", evidence=evidence)
    return replace(finding, evidence=evidence)


def _attributions(confirmation: Confirmation, result: TargetResult) -> Mapping[int, list[Break]]:
    """Return the breaks that belong to each finding, keyed by the id of its `Located` object."""
    found: dict[int, list[Break]] = {}
    for seen in result.default.breaks if result.default is not None else ():
        possible = confirmation.attributed(seen.stack, seen.gb)
        # Of the operands of a test, some may not be evaluated.
        traced = [one for one in possible if coverage_of(one, result).traced]
        for placed in traced or possible:
            found.setdefault(id(placed), []).append(seen)
    return found


Verdict = tuple[int, Evidence]


def _verdict(
    confirmation: Confirmation, placed: Located, result: TargetResult, breaks: Sequence[Break]
) -> Verdict | None:
    """Return a target's verdict on a finding, or None if it has none."""
    if placed.finding.category not in CONFIRMABLE:
        return None
    if result.default is None or result.eager is None:
        expected = [one for one in breaks if one.gb in placed.finding.gb]  # A call that fails may pass other kinds.
        if expected:
            return _CONFIRMED, _confirmed_by_break(confirmation, placed, result, expected)
        return _failed(result) if _concerns(result, placed) or _ran(result, placed) else None
    if placed.path not in result.files:
        return _never_reached(confirmation, result, placed)
    if breaks:
        return _CONFIRMED, _confirmed_by_break(confirmation, placed, result, breaks)
    if not result.complete:
        return _failed(result) if _concerns(result, placed) or _ran(result, placed) else None
    if placed.finding.category == "miscompile":
        return _compared(confirmation, placed, result)
    again = blamed(placed, result, confirmation.sources)
    if again is not None:
        return _CONFIRMED, _evidence(result, "confirmed", again.text, placed, confirmation, recompiles=again.count)
    error = result.fullgraph.error if result.fullgraph is not None else None
    if error is not None and error.type in _BREAKS and placed in confirmation.attributed(error.stack, error.gb):
        text = f"{break_text(error)} This was only seen with fullgraph=True."
        return _CONFIRMED, _evidence(result, "confirmed", text, placed, confirmation, gb=error.gb)
    return _unbroken(confirmation, placed, result)


def _failed(result: TargetResult) -> Verdict | None:
    """Return a verdict that explains why the target did not run to completion."""
    if result.problem is None:
        return None
    text = problem_text(result.problem, result.target, result.torch)
    if result.outdated:
        text += " Its trace is out of date, because files have changed; trace it again."
    return _FAILED, Evidence("unconfirmed", text, torch=result.torch or None)


def _concerns(result: TargetResult, placed: Located) -> bool:
    return is_way_to(result.target, placed)


def _ran(result: TargetResult, placed: Located) -> bool:
    """Return whether one of the finding's lines ran in eager mode."""
    lines = result.eager.lines.get(placed.path, ()) if result.eager is not None else ()
    return any(placed.finding.line <= line <= placed.finding.end_line for line in lines)


def _never_reached(confirmation: Confirmation, result: TargetResult, placed: Located) -> Verdict | None:
    """Return `unreached` if the finding's function ran, but only if the target should reach the finding."""
    if not _concerns(result, placed) and result.target not in placed.leads:
        return None
    first, last = confirmation.sources.body_around(placed.path, placed.finding.line)
    lines = result.eager.lines.get(placed.path, ()) if result.eager is not None else ()
    if not any(first <= line <= last for line in lines):
        return _UNCALLED, _evidence(result, "unconfirmed", uncalled_text(result.inputs, placed.finding.function))
    return _UNREACHED, _evidence(result, "unreached", f"{result.inputs} ran, but never reached this line.")


def _confirmed_by_break(
    confirmation: Confirmation, placed: Located, result: TargetResult, breaks: Sequence[Break]
) -> Evidence:
    seen = breaks[0]
    texts = [break_text(seen), effect_text(seen)]
    frame = confirmation.own_frame(seen.stack)
    innermost = seen.stack[-1] if seen.stack else None
    if frame is not None and innermost is not None and innermost != frame:
        where = f"{_short(innermost.file)}:{innermost.line}"
        texts.append(f"It breaks in {innermost.function} ({where}), called from here.")
    evidence = _evidence(result, "confirmed", "", placed, confirmation, gb=seen.gb)
    texts += [f"Seen {result.mode}."] if result.mode else []
    texts += ["The call in which this was seen fails later."] if result.eager is None else []
    if result.part:
        texts.append(f"This was only seen in a call to this part: {result.inputs}.")
    texts += ["With fullgraph=True, Dynamo traces it."] if evidence.fullgraph == "passes" else []
    if result.default is not None and not result.default.explained and seen.call == 0:
        texts.append("torch._dynamo.explain does not report this break.")
    effect = _largest([other.effect for other in breaks])
    return replace(evidence, detail=" ".join(text for text in texts if text), effect=effect)


def _short(path: str) -> str:
    _, installed, rest = path.rpartition("site-packages/")
    return rest if installed else path.rpartition("/")[2]


def _compared(confirmation: Confirmation, placed: Located, result: TargetResult) -> Verdict | None:
    """Judge a finding by comparing compiled code with eager code."""
    comparison = result.comparison
    coverage = coverage_of(placed, result)
    if comparison is None or not coverage.traced:
        return _unbroken(confirmation, placed, result)
    if not comparison.same:
        return _CONFIRMED, _evidence(result, "confirmed", f"{comparison_text(comparison)}.", placed, confirmation)
    if not comparison.stable:
        return _UNSEEN, _evidence(result, "unconfirmed", "two eager runs differ, so nothing can be compared.")
    if not coverage.whole or not comparison.gradients:
        return _UNSEEN, _evidence(result, "unconfirmed", "compiled and eager code agreed in all comparisons.")
    text = f"compiled and eager code give the same values, gradients and state for {result.inputs} over three calls."
    return _REFUTED, _evidence(result, "refuted", text, placed, confirmation)


def _unbroken(confirmation: Confirmation, placed: Located, result: TargetResult) -> Verdict | None:
    """Judge a finding without a break or recompilation: traced completely, hidden, partly run or never reached."""
    coverage = coverage_of(placed, result)
    default = result.default
    if not _ran(result, placed) and not coverage.traced:
        return _never_reached(confirmation, result, placed)
    name = placed.finding.function.rpartition(".")[2]
    again = next((one for one in result.recompiles if one.file == placed.path and name in one.function), None)
    if again is not None and placed.finding.category == "recompile":
        # Each recompilation brings a new value, so it cannot show whether this guard would also have failed.
        text = f"{result.inputs}: identical calls recompiled for another reason: {guard(again)}."
    elif placed.finding.category == "recompile" and breaks_at(placed, result):
        text = f"{result.inputs}: identical calls read the same value here; another value may or may not recompile."
    elif coverage.whole and placed.finding.category != "miscompile":
        text = "ran and was traced without a break"
        recompile = placed.finding.category == "recompile"
        text += ", and identical calls needed only one compilation." if recompile else "."
        return _REFUTED, _evidence(result, "refuted", f"{result.inputs}: this {text}", placed, confirmation)
    elif default is not None and default.error is not None:
        frames = [confirmation.own_frame(default.error.stack), *default.error.stack[-1:]]
        where = next((f" at {_short(one.file)}:{one.line}" for one in frames if one is not None), "")
        hidden = f"hidden by code{where} that fails with {default.error.type} when it is compiled"
        return _uncovered(confirmation, placed, result, hidden, "that failure")
    elif (hiding := _hiding(confirmation, placed, result)) is not None:
        frame, hider = hiding
        kind = f"{hider.gb}, {hider.gb_type}" if hider.gb else hider.gb_type
        line = f"line {frame.line}" if frame.file == placed.path else f"{_short(frame.file)}:{frame.line}"
        hidden = f"hidden by the graph break at {line} ({kind}), so this code runs in eager mode"
        return _uncovered(confirmation, placed, result, hidden, "that break")
    elif coverage.traced:
        text = f"{result.inputs}: only part of this ran, and that part was traced; an example has to run all of it."
    else:
        text = f"{result.inputs}: this ran, but not in a frame that Dynamo compiled."
    return _UNSEEN, _evidence(result, "unconfirmed", text)


def _uncovered(confirmation: Confirmation, placed: Located, result: TargetResult, hidden: str, without: str) -> Verdict:
    """Judge a finding that something hides, using the run without it, if there was one."""
    if result.latent is None or placed.finding.category != "graph-break":
        return _UNSEEN, _evidence(result, "unconfirmed", f"{hidden}.")
    seen = next((one for one in result.latent.run.breaks if placed in confirmation.attributed(one.stack, one.gb)), None)
    if seen is not None:
        text = f"{break_text(seen)} It is currently {hidden}."
        return _LATENT, _evidence(result, "confirmed", text, gb=seen.gb)
    if result.latent.coverage.get(placed.path, {}).get(placed.spot, Coverage(0, 0)).whole:
        text = f"{result.inputs}: this is {hidden}; without {without}, it was traced completely."
        return _REFUTED, _evidence(result, "refuted", text)
    return _UNSEEN, _evidence(result, "unconfirmed", f"{hidden}.")


def coverage_of(placed: Located, result: TargetResult) -> Coverage:
    """Return how many of a finding's operations Dynamo traced."""
    return result.coverage.get(placed.path, {}).get(placed.spot, Coverage(0, 0))


def _hiding(confirmation: Confirmation, placed: Located, result: TargetResult) -> tuple[StackFrame, Break] | None:
    """Return the break that made this finding's function fall back to eager mode, with its frame in the user's code."""
    name = placed.finding.function.rpartition(".")[2]
    breaks = result.default.breaks if result.default is not None else ()
    inside = [one for one in breaks if any(level.file == placed.path and level.function == name for level in one.stack)]
    others = [(frame, one) for one in inside if (frame := confirmation.own_frame(one.stack)) is not None]
    lost = next((one for one in others if one[1].effect != "split"), None)
    if lost is not None or result.latent is None or coverage_of(placed, result).traced:
        return lost
    # After a split, Dynamo may skip the rest of the function. Only a run without that break shows this.
    return max((one for one in others if one[0].line <= placed.finding.line), key=lambda one: one[0].line, default=None)


def _evidence(
    result: TargetResult,
    status: Literal["confirmed", "refuted", "unreached", "unconfirmed"],
    detail: str,
    placed: Located | None = None,
    confirmation: Confirmation | None = None,
    *,
    gb: str | None = None,
    recompiles: int = 0,
) -> Evidence:
    """Return evidence, including the result of `fullgraph=True` at this location if known."""
    fullgraph: Literal["passes", "breaks"] | None = None
    if placed is not None and confirmation is not None and result.default is not None:
        # If everything was traced without a break in default mode, the worker does not try the other mode.
        traced = coverage_of(placed, result).whole and not result.default.breaks
        error = (result.fullgraph or result.default).error
        if error is None and (result.fullgraph is not None or traced):
            fullgraph = "passes"
        elif error is not None and _is_at(error, placed, confirmation):
            fullgraph = "breaks"
    return Evidence(status, detail, gb, result.torch, fullgraph, recompiles)


def _is_at(error: RunFailure, placed: Located, confirmation: Confirmation) -> bool:
    frame = confirmation.own_frame(error.stack)
    return error.type in _BREAKS and frame is not None and placed.covers(frame.file, frame.line)
