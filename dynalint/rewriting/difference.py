"""Find the difference between two versions of a function's text, as minimal edits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dynalint.diffs import differences

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)


def edits(old: str, new: str) -> Iterator[tuple[int, int, str]]:
    """Yield the edits that turn `old` into `new`, as start and end offsets in `old` and the new text.

    Lines are compared first. Then, edits are shortened by the words that the old and new text have in common at the
    start and end.
    """
    before, after = _LINE.findall(old), _LINE.findall(new)
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line))
    for i, j, k, m in differences(before, after):
        yield _narrowed(starts[i], "".join(before[i:j]), "".join(after[k:m]))


def _narrowed(start: int, old: str, new: str) -> tuple[int, int, str]:
    """Shorten an edit by the words that the texts share at the start and end. Whole lines are kept."""
    if not old or not new:
        return start, start + len(old), new
    before, after = _WORD.findall(old), _WORD.findall(new)
    first, last = _alike(before, after)
    head, tail = len("".join(before[:first])), len("".join(before[len(before) - last :]))
    return start + head, start + len(old) - tail, new[head : len(new) - tail]


def _alike(old: list[str], new: list[str]) -> tuple[int, int]:
    """Return how many items two lists have in common at the start and at the end."""
    most = min(len(old), len(new))
    first = next((index for index in range(most) if old[index] != new[index]), most)
    last = next((index for index in range(most - first) if old[-1 - index] != new[-1 - index]), most - first)
    return first, last
