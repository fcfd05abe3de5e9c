"""Choose the calls that judge a target: repeats of a call that works, and other calls that reach more code."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..dynamo import runs
from ..dynamo.runs import Call, Maker
from .variants import all_options, options, other_batch, other_ranks

REPEATS = 3
# A call that takes longer, in seconds of processor time, is only repeated once, and is not varied, because every mode
# makes each call.
_SLOW = 0.25
_SLOW_REPEATS = 2
# How long to look for other calls, in seconds of processor time.
_LOOKING = 1.0
# After this time, calls that are not needed are skipped, and after the second, a call with another batch size that a
# finding needs. Compiling a model for another batch size takes two or three times as long as compiling it the first
# time, and would cost the other findings their verdicts.
_PACE, _PACE_IF_ASKED = 1.0, 3.0
_MOST_WAYS = 4

Lines = set[tuple[str, int]]
Spots = Mapping[str, Sequence[Sequence[int]]]


@dataclass(frozen=True)
class ChosenCalls:
    """`repeats` should need only one compilation, even if the last has another batch size. `others` may need more.

    The first `same` calls are identical. `asked` indicates whether any of the calls reaches a requested line.
    `optional` contains the numbers of calls that reach no lines that the others do not reach, and the seconds after
    which they are skipped.
    """

    repeats: list[Call]
    others: list[Call]
    asked: bool
    same: int = REPEATS
    optional: Mapping[int, float] = field(default_factory=dict)

    @property
    def all(self) -> list[Call]:
        """All calls in order."""
        return [*self.repeats, *self.others]

    def paced(self, skipped: set[int]) -> Iterator[Call]:
        """Yield the calls in order, but skip the optional ones when it is too late for them. Add these to `skipped`."""
        started = time.process_time()
        for number, call in enumerate(self.all):
            if time.process_time() - started > self.optional.get(number, math.inf):
                skipped.add(number)
            else:
                yield call

    def without(self, skipped: Collection[int]) -> ChosenCalls:
        """Return the calls that do not have these numbers, none of which are optional any more."""
        repeats = [call for number, call in enumerate(self.repeats) if number not in skipped]
        others = [call for number, call in enumerate(self.others, len(self.repeats)) if number not in skipped]
        return ChosenCalls(repeats, others, self.asked, self.same)


def choose(
    make: Maker,
    call: Call,
    watched: Mapping[str, str],
    spots: Spots,
    *,
    guessed: bool = False,
    varied: bool = True,
    resized: bool = False,
    brief: bool = False,
) -> ChosenCalls:
    """Return the calls to run. `watched` maps file names in code objects to the paths in `spots`.

    `resized` means that a finding needs a call with another batch size, and without `varied`, there is none otherwise.
    Apart from that, a slow call is only repeated, and so is any call if `brief` is true. If the call's shapes are
    `guessed`, calls with other ranks are tried too, so that no verdict depends on the guess. If no requested line is
    reached, more compilations can only lead to discoveries, so other calls are kept only if they reach more lines. If
    `varied` is false, they must reach more of the requested lines. If no file is watched, there are no other calls.
    """
    if not watched:
        return ChosenCalls([call] * REPEATS, [], asked=False)
    try:
        function = runs.fresh_callable(make)
    except BaseException:  # noqa: BLE001 - user code; the actual run reports it
        return ChosenCalls([call] * REPEATS, [], asked=True)

    lines = partial(_lines, function, watched)
    started = time.process_time()
    reached = lines(call) or set()
    slow = time.process_time() - started > _SLOW
    same = _SLOW_REPEATS if slow else REPEATS
    batch = other_batch(call) if resized or (varied and not slow) else None
    pace = _PACE_IF_ASKED if resized else _PACE
    few = slow or brief
    others = [] if few else _with_options(function, call, lines)
    others += _others(other_ranks(call), lines) if guessed and not few else []
    asked = _concerns(reached.union(*(seen for _, seen in others)), spots)
    repeats = [call] * same + (_wider(batch, lines) if asked or (few and resized) else [])
    kept = list(_more(others, reached, lambda new: _concerns(new, spots) if not varied else asked or bool(new)))
    optional = dict.fromkeys(range(same, len(repeats)), pace)
    optional.update((at, _PACE) for at, (_, is_new) in enumerate(kept, len(repeats)) if not is_new)
    return ChosenCalls(repeats, [other for other, _ in kept], asked, same, optional)


def _with_options(
    function: Callable[..., Any], call: Call, lines: Callable[[Call], Lines | None]
) -> list[tuple[Call, Lines]]:
    """Return calls with further arguments, each alone and all together, and the lines that they run."""
    found = _others(options(function, call), lines)
    until = time.process_time() + _LOOKING
    together = all_options(function, call, lambda tried: time.process_time() < until and lines(tried) is not None)
    return found + _others(([one] for one in together), lines)


def _lines(function: Callable[..., Any], watched: Mapping[str, str], tried: Call) -> Lines | None:
    """Return the watched lines that a call runs, or None if it fails."""
    run = runs.call_once(function, tried, watched)
    if run.error is not None:
        return None
    return {(watched[file], line) for file, seen in run.lines.items() for line in seen}


def _more(
    others: Iterable[tuple[Call, Lines]], reached: Lines, is_wanted: Callable[[Lines], bool]
) -> Iterator[tuple[Call, bool]]:
    """Yield the calls that are wanted for the lines that no earlier call reaches, and whether there are any."""
    reached = set(reached)
    for other, seen in others:
        new = seen - reached
        if is_wanted(new):
            yield other, bool(new)
            reached |= seen


def _wider(batch: Call | None, lines: Callable[[Call], Lines | None]) -> list[Call]:
    return [batch] if batch is not None and lines(batch) is not None else []


def _others(ways: Iterable[Iterable[Call]], lines: Callable[[Call], Lines | None]) -> list[tuple[Call, Lines]]:
    """Return the first call that works for each of the first few ways to vary a call."""
    until = time.process_time() + _LOOKING
    found: list[tuple[Call, Lines]] = []
    for alternatives in itertools.islice(ways, _MOST_WAYS):
        if time.process_time() > until:
            break
        found += itertools.islice(((one, seen) for one in alternatives if (seen := lines(one)) is not None), 1)
    return found


def _concerns(reached: Lines, spots: Spots) -> bool:
    return any(first <= line <= last for path, line in reached for first, _, last, _ in spots[path])
