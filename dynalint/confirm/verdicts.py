"""What the testimonies say of each finding. Nothing is run here.

A break belongs to the innermost frame in the user's own code. A finding is `confirmed` where Dynamo broke or
recompiled; `refuted` only where Dynamo traced every operation of its range in a frame that it really captured;
`unreached` where the target ran and never came there; else `unconfirmed`, with the reason. What breaks only once
another break no longer leaves its frame to eager costs nothing yet: it is confirmed, as advice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dynalint.confirm.recompiles import blamed, guard
from dynalint.confirm.sources import Sources
from dynalint.confirm.testimony import Coverage, Spot, Testimony
from dynalint.confirm.wording import break_text, comparison_text, effect_text, problem_text
from dynalint.confirm.worker.records import Break, Failure, Frame
from dynalint.findings import Evidence, Finding

JUDGED = ("graph-break", "recompile", "miscompile")

# The order in which verdicts of several targets win. One that saw the line run and could not see how it fared keeps
# the finding in the report even if another traced it whole.
_CONFIRMED, _LATENT, _UNSEEN, _REFUTED, _FAILED, _UNREACHED = 6, 5, 4, 3, 2, 1
_BREAKS = frozenset(("Unsupported", "UserError"))
_NO_CALL = ("build", "inputs", "run")


@dataclass(frozen=True)
class Placed:
    """A finding with its resolved path, its range as bytecode counts it, and the file of its compiled root if known."""

    finding: Finding
    path: str
    spot: Spot
    root: str = ""

    def covers(self, file: str, line: int) -> bool:
        """Whether a line lies in the finding's range."""
        return file == self.path and self.finding.line <= line <= self.finding.end_line


@dataclass(frozen=True)
class Court:
    """All that a verdict is reached by. `is_own` tells the user's own files from others by their resolved paths."""

    placed: Sequence[Placed]
    testimonies: Sequence[Testimony]
    sources: Sources
    is_own: Callable[[str], bool]

    def own_frame(self, stack: Iterable[Frame]) -> Frame | None:
        """Return the innermost frame in the user's own code."""
        return next((frame for frame in reversed(tuple(stack)) if self.is_place(frame.file, frame.line)), None)

    def is_place(self, file: str, line: int) -> bool:
        """Whether there is such a line in the user's own code; what a worker tells of may be made up."""
        return self.is_own(file) and self.sources.has_line(file, line)

    def attributed(self, stack: Sequence[Frame], gb: str | None) -> list[Placed]:
        """Return the findings that a break there belongs to: by line, then by column, then by the kind of break."""
        frame = self.own_frame(stack)
        if frame is None:
            return []
        found = [p for p in self.placed if p.finding.category in JUDGED[:2] and p.covers(frame.file, frame.line)]
        exact = [p for p in found if _overlaps(p.spot, frame)]
        found = exact or found
        expected = [p for p in found if gb in p.finding.gb]
        # Of a range that spans a block, a break of another kind further down is another matter.
        return expected or [p for p in found if not p.finding.gb or p.finding.line == frame.line or exact]


def _overlaps(spot: Spot, frame: Frame) -> bool:
    if frame.column is None or frame.end_column is None:
        return False
    start, end = (frame.line, frame.column), (frame.line, max(frame.end_column, frame.column + 1))
    return start < spot[2:] and spot[:2] < end


def judge(court: Court) -> list[Finding]:
    """Return the findings with what the testimonies say of each; those that nothing was heard of stay as they were."""
    verdicts = _best(court)
    return [
        placed.finding if best is None else _with_verdict(placed.finding, best)
        for placed, best in zip(court.placed, verdicts, strict=True)
    ]


def unheard(court: Court) -> list[Placed]:
    """Return the findings that no target came to, for those that are meant to could not be built or called."""
    failed = [one for one in court.testimonies if one.problem is not None and one.problem.phase in _NO_CALL]
    if not failed:
        return []
    return [
        placed
        for placed, best in zip(court.placed, _best(court), strict=True)
        if best is not None and best[0] == _FAILED and any(_concerns(one, placed) for one in failed)
    ]


def _best(court: Court) -> list[Verdict | None]:
    """Return the verdict that wins on each finding."""
    attributions = [_attributions(court, testimony) for testimony in court.testimonies]
    found = []
    for placed in court.placed:
        verdicts = []
        for testimony, breaks in zip(court.testimonies, attributions, strict=True):
            verdict = _verdict(court, placed, testimony, breaks.get(id(placed), []))
            # Of a part that is called by itself only a break counts: its callers may pass something else.
            if verdict is None or (testimony.part and verdict[0] < _LATENT):
                continue
            # That nothing is wrong counts from code that is meant to come there: what runs may forge what it shows.
            if verdict[0] != _REFUTED or str(testimony.target.path) == placed.path or _concerns(testimony, placed):
                verdicts.append(verdict)
        found.append(max(verdicts, key=lambda verdict: verdict[0], default=None))
    return found


def _with_verdict(finding: Finding, verdict: Verdict) -> Finding:
    rank, evidence = verdict
    if rank == _LATENT:
        return replace(finding, category="advice", severity="info", evidence=evidence)
    return replace(finding, evidence=evidence)


def _attributions(court: Court, testimony: Testimony) -> Mapping[int, list[Break]]:
    """Return the breaks that belong to each finding, by the identity of its Placed."""
    found: dict[int, list[Break]] = {}
    for seen in testimony.default.breaks if testimony.default is not None else ():
        for placed in court.attributed(seen.stack, seen.gb):
            found.setdefault(id(placed), []).append(seen)
    return found


Verdict = tuple[int, Evidence]


def _verdict(court: Court, placed: Placed, testimony: Testimony, breaks: Sequence[Break]) -> Verdict | None:
    """Return what one target says of one finding, None if nothing."""
    if placed.finding.category not in JUDGED:
        return None
    if testimony.default is None or testimony.eager is None:
        return _failed(testimony) if _concerns(testimony, placed) or _ran(testimony, placed) else None
    if placed.path not in testimony.files:
        return _never_reached(testimony, placed)
    if breaks:
        return _CONFIRMED, _confirmed_by_break(court, placed, testimony, breaks[0])
    if placed.finding.category == "miscompile":
        return _compared(court, placed, testimony)
    again = blamed(placed, testimony, court.sources)
    if again is not None:
        return _CONFIRMED, _evidence(testimony, "confirmed", again.text, placed, court, recompiles=again.count)
    error = testimony.fullgraph.error if testimony.fullgraph is not None else None
    if error is not None and error.type in _BREAKS and placed in court.attributed(error.stack, error.gb):
        text = f"{break_text(error)} Seen with fullgraph=True only."
        return _CONFIRMED, _evidence(testimony, "confirmed", text, placed, court, gb=error.gb)
    return _unbroken(court, placed, testimony)


def _failed(testimony: Testimony) -> Verdict | None:
    """Say why the target was not heard to the end."""
    if testimony.problem is None:
        return None
    text = problem_text(testimony.problem, testimony.target, testimony.torch)
    if testimony.outdated:
        text += " What dynalint trace has left of it is out of date, for files it ran have changed: trace again."
    return _FAILED, Evidence("unconfirmed", text, torch=testimony.torch or None)


def _concerns(testimony: Testimony, placed: Placed) -> bool:
    """Whether the finding lies in what this target's code reaches, by the chain that the analysis found."""
    target, finding = testimony.target, placed.finding
    roots = {target.qualname, f"{target.qualname}.forward", f"{target.qualname}.__call__"}
    if placed.root and placed.root != str(target.path):
        return False
    if finding.region and finding.region[0] in roots:
        return len(finding.region) > 1 or str(target.path) == placed.path
    inside = finding.function == target.qualname or finding.function.startswith(f"{target.qualname}.")
    return inside and str(target.path) == placed.path


def _ran(testimony: Testimony, placed: Placed) -> bool:
    """Whether a line of the finding ran without the compiler."""
    lines = testimony.eager.lines.get(placed.path, ()) if testimony.eager is not None else ()
    return any(placed.finding.line <= line <= placed.finding.end_line for line in lines)


def _never_reached(testimony: Testimony, placed: Placed) -> Verdict | None:
    """Say so only of a target that is meant to come there: that others do not means nothing."""
    if not _concerns(testimony, placed):
        return None
    return _UNREACHED, _evidence(testimony, "unreached", f"{testimony.inputs} ran and never came here.")


def _confirmed_by_break(court: Court, placed: Placed, testimony: Testimony, seen: Break) -> Evidence:
    texts = [break_text(seen), effect_text(seen)]
    frame = court.own_frame(seen.stack)
    innermost = seen.stack[-1] if seen.stack else None
    if frame is not None and innermost is not None and innermost != frame:
        texts.append(
            f"It breaks in {innermost.function} ({_short(innermost.file)}:{innermost.line}), called from here."
        )
    evidence = _evidence(testimony, "confirmed", "", placed, court, gb=seen.gb)
    if testimony.mode:
        texts.append(f"Seen {testimony.mode}.")
    if testimony.part:
        texts.append(f"Seen by a call of this part alone: {testimony.inputs}.")
    if evidence.fullgraph == "passes":
        texts.append("fullgraph=True traces it.")
    if testimony.explain is not None and testimony.explain.error is None and not testimony.explain.reasons:
        texts.append("torch._dynamo.explain says nothing of it.")
    return replace(evidence, detail=" ".join(text for text in texts if text))


def _short(path: str) -> str:
    _, installed, rest = path.rpartition("site-packages/")
    return rest if installed else path.rpartition("/")[2]


def _compared(court: Court, placed: Placed, testimony: Testimony) -> Verdict | None:
    """Judge by the comparison of compiled with uncompiled code."""
    comparison = testimony.comparison
    coverage = coverage_of(placed, testimony)
    if comparison is None or not coverage.traced:
        return _unbroken(court, placed, testimony)
    if not comparison.same:
        text = f"{comparison_text(comparison)}."
        return _CONFIRMED, _evidence(testimony, "confirmed", text, placed, court)
    if not comparison.stable:
        return _UNSEEN, _evidence(testimony, "unconfirmed", "two uncompiled runs differ, so nothing can be compared.")
    if not coverage.whole or not comparison.gradients:
        return _UNSEEN, _evidence(testimony, "unconfirmed", "compiled and uncompiled code agree in what was compared.")
    text = f"values, gradients and state of {testimony.inputs} are the same compiled and uncompiled over three calls."
    return _REFUTED, _evidence(testimony, "refuted", text, placed, court)


def _unbroken(court: Court, placed: Placed, testimony: Testimony) -> Verdict | None:
    """Judge a finding that no break and no recompile belongs to: traced whole, hidden, partly run or never reached."""
    coverage = coverage_of(placed, testimony)
    default = testimony.default
    if not _ran(testimony, placed) and not coverage.traced:
        return _never_reached(testimony, placed) if testimony.problem is None else _failed(testimony)
    name = placed.finding.function.rpartition(".")[2]
    again = next((one for one in testimony.recompiles if one.file == placed.path and name in one.function), None)
    if again is not None and placed.finding.category == "recompile":
        # Each compile brings a new value along: whether this would have asked for one never shows.
        text = f"{testimony.inputs}: calls alike were compiled again, for another reason: {guard(again)}."
    elif coverage.whole and placed.finding.category != "miscompile":
        text = "ran and was traced whole"
        text += ", and three calls alike needed one compile." if placed.finding.category == "recompile" else "."
        return _REFUTED, _evidence(testimony, "refuted", f"{testimony.inputs}: this {text}", placed, court)
    elif default is not None and default.error is not None:
        text = f"the compiled code failed with {default.error.type} before this could be judged."
    elif (hiding := _hiding(court, placed, testimony)) is not None:
        return _uncovered(court, placed, testimony, *hiding)
    elif coverage.traced:
        text = (
            f"{testimony.inputs}: only a part of this ran, and it was traced; an example that runs all would settle it."
        )
    else:
        text = f"{testimony.inputs}: this ran, but not in a frame that Dynamo compiled."
    return _UNSEEN, _evidence(testimony, "unconfirmed", text)


def _uncovered(court: Court, placed: Placed, testimony: Testimony, frame: Frame, hiding: Break) -> Verdict:
    """Judge what a break hides by the run in which that break was taken out of the way, if there was one."""
    kind = f"{hiding.gb}, {hiding.gb_type}" if hiding.gb else hiding.gb_type
    hidden = f"hidden by the graph break in line {frame.line} ({kind}), which leaves this code to eager"
    if testimony.latent is None or placed.finding.category != "graph-break":
        return _UNSEEN, _evidence(testimony, "unconfirmed", f"{hidden}.")
    seen = next((one for one in testimony.latent.run.breaks if placed in court.attributed(one.stack, one.gb)), None)
    if seen is not None:
        text = f"{break_text(seen)} For now it is {hidden}."
        return _LATENT, _evidence(testimony, "confirmed", text, gb=seen.gb)
    if testimony.latent.coverage.get(placed.path, {}).get(placed.spot, Coverage(0, 0)).whole:
        text = f"{testimony.inputs}: this is {hidden}; without that break it was traced whole."
        return _REFUTED, _evidence(testimony, "refuted", text)
    return _UNSEEN, _evidence(testimony, "unconfirmed", f"{hidden}.")


def coverage_of(placed: Placed, testimony: Testimony) -> Coverage:
    """Return how much of a finding's operations Dynamo traced."""
    return testimony.coverage.get(placed.path, {}).get(placed.spot, Coverage(0, 0))


def _hiding(court: Court, placed: Placed, testimony: Testimony) -> tuple[Frame, Break] | None:
    """Return the break that sent the function of this finding to eager, with its place in the user's code."""
    name = placed.finding.function.rpartition(".")[2]
    for seen in testimony.default.breaks if testimony.default is not None else ():
        frame = court.own_frame(seen.stack)
        inside = any(level.file == placed.path and level.function == name for level in seen.stack)
        if frame is not None and inside and seen.effect != "split":
            return frame, seen
    return None


def _evidence(
    testimony: Testimony,
    status: Literal["confirmed", "refuted", "unreached", "unconfirmed"],
    detail: str,
    placed: Placed | None = None,
    court: Court | None = None,
    *,
    gb: str | None = None,
    recompiles: int = 0,
) -> Evidence:
    """Return evidence with what `fullgraph=True` said of this very place, where that is known."""
    fullgraph: Literal["passes", "breaks"] | None = None
    if placed is not None and court is not None and testimony.fullgraph is not None:
        error = testimony.fullgraph.error
        if error is None:
            fullgraph = "passes"
        elif _is_at(error, placed, court):
            fullgraph = "breaks"
    return Evidence(status, detail, gb, testimony.torch, fullgraph, recompiles)


def _is_at(error: Failure, placed: Placed, court: Court) -> bool:
    frame = court.own_frame(error.stack)
    return error.type in _BREAKS and frame is not None and placed.covers(frame.file, frame.line)
