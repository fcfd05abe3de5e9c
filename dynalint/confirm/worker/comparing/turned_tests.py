"""Invert a test that gives the same result for all inputs, in both versions, because another setup may invert it.

Near the changed code, a test such as `x.dim() > 2` or `self.wide` may decide which values reach it, but may always have
the same result with the example. If the original fails with the opposite result, that shows nothing. If only the
rewritten code fails, it is a difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .differences import Equality, difference
from .lockstep import Told
from .pairs import ComparedVersion, ObservedDifference, Pair
from .reached_code import InputSearch
from .states import StateVariation
from .trials import BASE, Trial

_MOST_TESTS = 12
_MOST_WAYS = 6
# The fraction of the search's time limit.
_SHARE = 1 / 4

VariedTrial = tuple["StateVariation | None", Trial]


def one_sided(search: InputSearch, words: Mapping[int, str]) -> dict[int, str]:
    """Return the tests that have only had a single result, as descriptions by mark."""
    answers = {mark: [truth for other, truth in search.marks.seen if other == mark] for mark in words}
    alike = [mark for mark, found in answers.items() if found in ([True], [False])]
    return {mark: words[mark] for mark in alike[:_MOST_TESTS]}


def difference_when_turned(
    one: ComparedVersion,
    other: ComparedVersion,
    equality: Equality,
    search: InputSearch,
    told: Told,
    tests: Mapping[int, str],
) -> ObservedDifference | None:
    """Return the first difference that appears when one of `tests` is inverted. `tests` are descriptions by mark."""
    search = replace(search, seconds=search.seconds * _SHARE)
    search.begin()
    wanted = [told[side] for side in sorted(search.wanted, key=str) if side in told]
    ways = [way for way in dict.fromkeys([(None, BASE), *wanted]) if way[1].method is None]
    for mark, words in tests.items():
        found = _first_difference(one, other, equality, search, ways[:_MOST_WAYS], mark)
        if found is not None:
            return replace(found, where=f"{found.where} if {words} had the opposite result")
    return None


def _first_difference(
    one: ComparedVersion,
    other: ComparedVersion,
    equality: Equality,
    search: InputSearch,
    ways: Sequence[VariedTrial],
    mark: int,
) -> ObservedDifference | None:
    for training in (True, False):
        for change, trial in ways:
            if not search.has_time():
                return None
            pair = Pair(one, other, equality, training=training, change=change)
            with search.marks.turning(mark):
                differs, first, second = pair.step(trial)
            if differs is None or first.error is not None:
                continue
            again = Pair(one, one.again(), equality, training=training, change=change)
            with search.marks.turning(mark):
                if again.step(trial)[0] is not None:
                    continue  # It also differs from itself.
            passes = difference(first, second, replace(equality, practical=True)) is None
            mode = "while training" if training else "in evaluation, without gradients"
            where = f"{trial.name}, {mode},"
            return ObservedDifference(differs, where, second.error is not None, passes)
    return None
