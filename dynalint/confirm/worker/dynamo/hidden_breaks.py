"""Find what a graph break hides: run again with the value of the breaking expression given beforehand.

A break inside a `for`, a `try` or a `with` leaves its whole frame to eager, and whatever else breaks there is never
reported. So each such expression is replaced, in the code of the functions in memory, by the values that it had in an
uncompiled run over the same calls; Dynamo then traces the frame up to what breaks next, and so on, for a few rounds.

So are the heads of `with` blocks and stores. Nothing is said of frames whose break is anything else: an unpacking, a
store to an attribute that the file reads. Where Python or torch (before 3.11 and 2.12) do not tell columns, the one
range asked about that begins in the line is taken for the expression.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..source.substitutes import RECORD, VALUES, Edit, Place, rewritten
from . import runs
from .records import Run, Span
from .runs import Call, Maker

_ROUNDS = 12
_HIDING = ("frame", "rest")


@dataclass(frozen=True)
class Asked:
    """The text of a file, and the ranges in it that are asked about."""

    text: str
    spots: Sequence[Sequence[int]]


def latent_run(make: Maker, calls: Sequence[Call], seen: Run, asked: Mapping[str, Asked], seconds: float) -> Run | None:
    """Return the breaks and the traced operations that `seen`, a default run, hid; None where none can be run.

    `asked` holds the files that are asked about, by the name their code objects have. `seconds` bounds the time after
    which no further round begins.
    """
    deadline = time.process_time() + seconds
    given: list[Place] = []
    found: Run | None = None
    latest = seen
    for _ in range(_ROUNDS):
        new = [place for place in _hiding(latest, asked) if place not in given]
        if not new or time.process_time() > deadline:
            break
        given += new
        run = _given_run(make, calls, given, {file: one.text for file, one in asked.items()})
        if run is None:
            break
        latest = run
        found = run if found is None else _joined(found, run)
    return found


def _hiding(run: Run, asked: Mapping[str, Asked]) -> Iterator[Place]:
    """Yield the places of the breaks that left a frame, or the rest of one, to eager."""
    for broken in run.breaks:
        frame = next((frame for frame in reversed(broken.stack) if frame.file in asked), None)
        if broken.effect not in _HIDING or frame is None:
            continue
        if frame.column is not None and frame.end_column is not None:
            yield Place(frame.file, frame.line, frame.column, frame.end_column)
            continue
        spots = {(spot[1], spot[3]) for spot in asked[frame.file].spots if spot[0] == frame.line}
        if len(spots) == 1:
            yield Place(frame.file, frame.line, *spots.pop())


def _joined(first: Run, second: Run) -> Run:
    traced: dict[str, tuple[Span, ...]] = {
        file: tuple(sorted({*first.traced.get(file, ()), *second.traced.get(file, ())}))
        for file in {*first.traced, *second.traced}
    }
    breaks = first.breaks + tuple(one for one in second.breaks if one not in first.breaks)
    return replace(second, breaks=breaks, traced=traced)


def _given_run(make: Maker, calls: Sequence[Call], given: Sequence[Place], sources: Mapping[str, str]) -> Run | None:
    """Compile with the values of `given` known; None where they cannot be put in place or the code then fails."""
    edits = [Edit(number, place) for number, place in enumerate(given)]
    record = {RECORD: lambda number, value: edits[number].record(value)}
    with rewritten(edits, sources, recording=True, names=record) as done:
        if not done or runs.eager_run(make, calls).error is not None:
            return None
    names = {VALUES.format(edit.number): edit.values for edit in edits}
    with rewritten(edits, sources, recording=False, names=names) as done:
        return runs.default_run(make, calls, sources) if done else None
