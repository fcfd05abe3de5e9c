"""Find what a graph break hides by running the code again with the value of the breaking expression known in advance.

A break inside a `for`, `try` or `with` makes the whole frame fall back to eager mode, so more breaks in the same frame
are never reported. Dynamo also skips the rest of a function if none of the values that it continues with is a tensor.
For example, it continues with a bound method after `x.view(n.item())`. Each breaking expression is therefore replaced,
in the functions' code in memory, by the values from an eager run with the same calls. Dynamo then traces up to the next
break, and so on for a few rounds.

Frames with any other kind of break, such as a store or a context manager, are left alone. Python before 3.11 has no
columns. In that case, the requested range that starts on the line is used if there is only one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..source.substitutes import RECORD, VALUES, OperationPlace, Substitute, rewritten
from . import runs
from .records import Run, Span
from .reports import resume_name
from .runs import Call, Maker

_ROUNDS = 12
_HIDING = ("frame", "rest")


@dataclass(frozen=True)
class JudgedFile:
    """A file's text, and the ranges in it to judge."""

    text: str
    spots: Sequence[Sequence[int]]


def latent_run(
    make: Maker,
    calls: Sequence[Call],
    seen: Run,
    asked: Mapping[str, JudgedFile],
    seconds: float,
    is_open: Callable[[Sequence[Run]], bool],
) -> Run | None:
    """Return the breaks and traced operations that a default run, `seen`, hid, or None if nothing more can run.

    `asked` maps files, as named in code objects, to the ranges to judge. `is_open` indicates whether the runs so far
    leave a range undecided. If they do not, or after `seconds`, no more rounds are started.
    """
    deadline = time.process_time() + seconds
    given: list[OperationPlace] = []
    found: Run | None = None
    latest = seen
    for _ in range(_ROUNDS):
        new = [place for place in _hiding(latest, asked) if place not in given]
        if not new or time.process_time() > deadline or not is_open([seen] if found is None else [seen, found]):
            break
        given += new
        run = _given_run(make, calls, given, {file: one.text for file, one in asked.items()})
        if run is None:
            break
        latest = run
        found = run if found is None else joined(found, run)
    return found


def _hiding(run: Run, asked: Mapping[str, JudgedFile]) -> Iterator[OperationPlace]:
    """Yield the locations of the breaks that made a frame, or the rest of it, fall back to eager mode."""
    compiled = {(one.file, one.function) for one in run.compiles}
    for broken in run.breaks:
        frame = next((frame for frame in reversed(broken.stack) if frame.file in asked), None)
        if frame is None:
            continue
        if broken.effect not in _HIDING and (frame.file, resume_name(frame.function, frame.line)) in compiled:
            continue
        if frame.column is not None and frame.end_column is not None:
            yield OperationPlace(frame.file, frame.line, frame.column, frame.end_column)
            continue
        spots = {(spot[1], spot[3]) for spot in asked[frame.file].spots if spot[0] == frame.line}
        if len(spots) == 1:
            yield OperationPlace(frame.file, frame.line, *spots.pop())


def joined(first: Run, second: Run | None) -> Run:
    """Return a run with the breaks and the traced operations of both."""
    if second is None:
        return first
    traced: dict[str, tuple[Span, ...]] = {
        file: tuple(sorted({*first.traced.get(file, ()), *second.traced.get(file, ())}))
        for file in {*first.traced, *second.traced}
    }
    breaks = first.breaks + tuple(one for one in second.breaks if one not in first.breaks)
    return replace(second, breaks=breaks, traced=traced)


def _given_run(
    make: Maker, calls: Sequence[Call], given: Sequence[OperationPlace], sources: Mapping[str, str]
) -> Run | None:
    """Compile with the values of `given` known. Return None if they cannot be inserted or the code then fails."""
    edits = [Substitute(number, place) for number, place in enumerate(given)]
    record = {RECORD: lambda number, value: edits[number].record(value)}
    with rewritten(edits, sources, recording=True, names=record) as done:
        if not done or runs.eager_run(make, calls).error is not None:
            return None
    names = {VALUES.format(edit.number): edit.values for edit in edits}
    with rewritten(edits, sources, recording=False, names=names) as done:
        return runs.default_run(make, calls, sources) if done else None
