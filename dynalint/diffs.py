"""Line-based comparison of two texts, used for diffs, suggestions, edits and `--since`.

If a text has at least 200 lines, `difflib` treats frequent lines as junk, and then shows a repetitive file as
completely rewritten. Without that heuristic, it takes cubic time. Lines that occur once in both texts are therefore
matched first (Bram Cohen's patience diff). The parts between them are compared using the shortest edit script (Eugene
Myers, "An O(ND) Difference Algorithm and Its Variations", 1986).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

_Line = TypeVar("_Line", bound=Hashable)

_MOST_STEPS = 2_000_000  # in the search for a shortest edit script; this takes about two seconds


class LineDifference(NamedTuple):
    """A difference where lines `old_start` to `old_stop` are replaced with lines `start` to `stop` of the new text."""

    old_start: int
    old_stop: int
    start: int
    stop: int


def differences(before: Sequence[_Line], after: Sequence[_Line]) -> Iterator[LineDifference]:
    """Yield the differences between two texts in order, with equal lines between them.

    Lines that occur once in both texts and are in the same order are matched first, together with equal lines next to
    them. The parts between them are compared within a total budget of about two seconds. Anything left after that
    counts as changed.
    """
    budget = _MOST_STEPS
    ends = [(-1, -1), *_anchors(before, after), (len(before), len(after))]
    for (old_start, start), (old_stop, stop) in pairwise(ends):
        old_low, low, old_high, high = old_start + 1, start + 1, old_stop, stop
        while old_low < old_high and low < high and before[old_low] == after[low]:
            old_low, low = old_low + 1, low + 1
        while old_low < old_high and low < high and before[old_high - 1] == after[high - 1]:
            old_high, high = old_high - 1, high - 1
        if old_low == old_high and low == high:
            continue
        script, steps = _script(before[old_low:old_high], after[low:high], budget)
        budget -= steps
        for i, j, k, m in script:
            yield LineDifference(old_low + i, old_low + j, low + k, low + m)


def _script(old: Sequence[_Line], new: Sequence[_Line], budget: int) -> tuple[list[LineDifference], int]:
    """Return the shortest edit script and the steps it took.

    If it takes more than `budget` steps, replace everything.
    """
    steps = 0
    reached = {1: 0}  # The furthest position in `old` on each diagonal, where a diagonal is `old` minus `new`.
    rounds: list[dict[int, int]] = []
    while steps <= budget:
        rounds.append(dict(reached))
        edits = len(rounds) - 1
        steps += len(rounds)
        for diagonal in range(-edits, edits + 1, 2):
            x = reached[diagonal + 1] if _inserts(reached, diagonal, edits) else reached[diagonal - 1] + 1
            y = x - diagonal
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            reached[diagonal] = x
            if x >= len(old) and y >= len(new):
                return _traced(rounds, len(old), len(new)), steps
    return [LineDifference(0, len(old), 0, len(new))], steps


def _inserts(reached: Mapping[int, int], diagonal: int, edits: int) -> bool:
    """Return whether a diagonal is reached by an insertion, from the diagonal above.

    Otherwise, a deletion reaches it.
    """
    return diagonal == -edits or (diagonal != edits and reached[diagonal - 1] < reached[diagonal + 1])


def _traced(rounds: Sequence[Mapping[int, int]], x: int, y: int) -> list[LineDifference]:
    """Return the edits on the path to the end, with adjacent edits merged."""
    found: list[LineDifference] = []
    for edits in range(len(rounds) - 1, 0, -1):
        reached, diagonal = rounds[edits], x - y
        inserts = _inserts(reached, diagonal, edits)
        before = diagonal + 1 if inserts else diagonal - 1
        x = reached[before]
        y = x - before
        after_x, after_y = (x, y + 1) if inserts else (x + 1, y)
        last = found[-1] if found else None
        if last is not None and (last.old_start, last.start) == (after_x, after_y):
            found[-1] = last._replace(old_start=x, start=y)
        else:
            found.append(LineDifference(x, after_x, y, after_y))
    return found[::-1]


def _anchors(before: Sequence[_Line], after: Sequence[_Line]) -> list[tuple[int, int]]:
    """Return the positions of the longest sequence of lines that occur once in each text, in the same order in both."""
    once = {line for line, count in Counter(before).items() if count == 1}
    places = {line: index for index, line in enumerate(before) if line in once}
    counts = Counter(after)
    pairs = [(places[line], index) for index, line in enumerate(after) if line in places and counts[line] == 1]
    # Longest increasing subsequence: `tops` are the smallest ends by length, and `links` are the predecessors.
    tops: list[int] = []
    at: list[int] = []
    links: list[int] = []
    for number, (old, _) in enumerate(pairs):
        length = bisect_left(tops, old)
        links.append(at[length - 1] if length else -1)
        tops[length : length + 1] = [old]
        at[length : length + 1] = [number]
    rising: list[tuple[int, int]] = []
    number = at[-1] if at else -1
    while number >= 0:
        rising.append(pairs[number])
        number = links[number]
    return rising[::-1]


def hunks(before: Sequence[str], after: Sequence[str], context: int = 3) -> Iterator[tuple[str, list[str]]]:
    """Yield the hunks of a unified diff: the `@@ ... @@` line, and the lines below it with their markers."""
    group: list[LineDifference] = []
    for one in differences(before, after):
        if group and one.old_start - group[-1].old_stop > 2 * context:
            yield _hunk(group, before, after, context)
            group = []
        group.append(one)
    if group:
        yield _hunk(group, before, after, context)


def _hunk(
    group: Sequence[LineDifference], before: Sequence[str], after: Sequence[str], context: int
) -> tuple[str, list[str]]:
    lead = min(context, group[0].old_start)
    low, old_high = group[0].old_start - lead, min(group[-1].old_stop + context, len(before))
    lines = []
    at = low
    for one in group:
        lines += [f" {line}" for line in before[at : one.old_start]]
        lines += [f"-{line}" for line in before[one.old_start : one.old_stop]]
        lines += [f"+{line}" for line in after[one.start : one.stop]]
        at = one.old_stop
    lines += [f" {line}" for line in before[at:old_high]]
    start = group[0].start - lead
    stop = group[-1].stop + old_high - group[-1].old_stop
    return f"@@ -{_range(low, old_high)} +{_range(start, stop)} @@", lines


def _range(start: int, stop: int) -> str:
    """Return a range the way a hunk header writes it. An empty range starts at the line before it."""
    length = stop - start
    first = start + 1 if length else start
    return str(first) if length == 1 else f"{first},{length}"
