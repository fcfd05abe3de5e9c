"""Choose the calls by which a target is judged: the one that works, again, and others that reach more of its code."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..dynamo import runs
from ..dynamo.runs import Call, Maker
from .variants import options, other_batch, other_ranks, variants

REPEATS = 3
_OPTIONS = 4

Lines = set[tuple[str, int]]
Spots = Mapping[str, Sequence[Sequence[int]]]


@dataclass(frozen=True)
class Calls:
    """`repeats` are calls that should need one compile, the last of another batch size perhaps; `others` may need more.

    `asked` tells whether one of them reaches a line that somebody wants to know about.
    """

    repeats: list[Call]
    others: list[Call]
    asked: bool

    @property
    def all(self) -> list[Call]:
        """All calls in their order."""
        return [*self.repeats, *self.others]


def choose(make: Maker, call: Call, watched: Mapping[str, str], spots: Spots, *, guessed: bool = False) -> Calls:
    """Return the calls to run. `watched` maps the files as code objects name them to the paths that `spots` has.

    Where the shapes of the call are `guessed`, nothing may rest on them alone: other ranks are tried too.

    Where no line in question is reached, every call costs a compile for nothing but discoveries: only those are kept
    that reach lines of their own. Where no file is watched, none does.
    """
    if not watched:
        return Calls([call] * REPEATS, [], asked=False)
    try:
        function = runs.fresh_callable(make)
    except BaseException:  # noqa: BLE001 - user code; the run proper reports it
        return Calls([call] * REPEATS, [], asked=True)

    def lines(tried: Call) -> Lines | None:
        run = runs.call_once(function, tried, watched)
        if run.error is not None:
            return None
        return {(watched[file], line) for file, seen in run.lines.items() for line in seen}

    reached = lines(call) or set()
    batch = other_batch(call)
    others = _others(function, call, lines)
    if guessed:
        for alternatives in other_ranks(call):
            others += itertools.islice(_working(alternatives, lines), 1)
    asked = _concerns(reached.union(*(seen for _, seen in others)), spots)
    if asked:
        wider = [batch] if batch is not None and lines(batch) is not None else []
        return Calls([*[call] * REPEATS, *wider], [other for other, _ in others], asked)
    kept = []
    for other, seen in others:
        if not seen <= reached:
            kept.append(other)
            reached |= seen
    return Calls([call] * REPEATS, kept, asked)


def _others(
    function: Callable[..., Any], call: Call, lines: Callable[[Call], Lines | None]
) -> list[tuple[Call, Lines]]:
    """Return the calls that work with other values, and one for each of the first few parameters left out."""
    found = list(_working(variants(call), lines))
    for alternatives in itertools.islice(options(function, call), _OPTIONS):
        found += itertools.islice(_working(alternatives, lines), 1)
    return found


def _working(calls: Iterable[Call], lines: Callable[[Call], Lines | None]) -> Iterator[tuple[Call, Lines]]:
    """Yield the calls that raise nothing, with the lines that they reach."""
    return ((call, seen) for call in calls if (seen := lines(call)) is not None)


def _concerns(reached: Lines, spots: Spots) -> bool:
    return any(first <= line <= last for path, line in reached for first, _, last, _ in spots[path])
