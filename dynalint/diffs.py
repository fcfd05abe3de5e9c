"""Line-based comparison of two texts, used for diffs, suggestions, edits and `--since`.

If a text has at least 200 lines, `difflib` treats frequent lines as junk, and then shows a repetitive file as
completely rewritten. Without that heuristic, it takes cubic time. Lines that occur once in both texts are therefore
matched first (Bram Cohen's patience diff), and `difflib` only compares the parts between them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import NamedTuple, TypeVar

_Line = TypeVar("_Line", bound=Hashable)

_MOST_PAIRS = 200_000  # of equal lines that `difflib` looks at; comparing so many takes a few seconds at worst


class LineDifference(NamedTuple):
    """A difference where lines `old_start` to `old_stop` are replaced with lines `start` to `stop` of the new text."""

    old_start: int
    old_stop: int
    start: int
    stop: int


def differences(before: Sequence[_Line], after: Sequence[_Line]) -> Iterator[LineDifference]:
    """Yield the differences between two texts in order, with equal lines between them.

    Lines that occur once in both texts and are in the same order are matched first, together with equal lines next to
    them. The parts between them are compared unless they are too long and repetitive. Those count as changed.
    """
    budget = _MOST_PAIRS
    ends = [(-1, -1), *_anchors(before, after), (len(before), len(after))]
    for (old_start, start), (old_stop, stop) in pairwise(ends):
        old_low, low, old_high, high = old_start + 1, start + 1, old_stop, stop
        while old_low < old_high and low < high and before[old_low] == after[low]:
            old_low, low = old_low + 1, low + 1
        while old_low < old_high and low < high and before[old_high - 1] == after[high - 1]:
            old_high, high = old_high - 1, high - 1
        if old_low == old_high and low == high:
            continue
        old, new = before[old_low:old_high], after[low:high]
        counts = Counter(new)
        budget -= sum(counts[line] for line in old)
        if budget < 0:
            yield LineDifference(old_low, old_high, low, high)
            continue
        matcher = SequenceMatcher(None, old, new, autojunk=False)
        for kind, i, j, k, m in matcher.get_opcodes():
            if kind != "equal":
                yield LineDifference(old_low + i, old_low + j, low + k, low + m)


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
