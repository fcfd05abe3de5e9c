"""The positions of a file's operations, and how many of them Dynamo traced. Uses only the standard library."""

from __future__ import annotations

import dis
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from types import CodeType

from ..dynamo.records import Span


@lru_cache(maxsize=32)
def operations_of(source: str, file: str) -> Sequence[Span]:
    """Return the positions of all instructions in a module, including nested code, sorted and without duplicates.

    Before Python 3.11, they are whole lines. Raises SyntaxError or ValueError if the source is not valid Python.
    """
    return sorted(set(_spans(compile(source, file, "exec", dont_inherit=True))))


def count(spots: Iterable[Sequence[int]], operations: Sequence[Span], traced: Collection[Span]) -> list[dict[str, int]]:
    """Count the operations in each spot, and how many of them were traced.

    `operations` must be sorted.
    """
    counts = []
    for spot in spots:
        lines = [bisect_left(operations, (line, 0, 0, 0)) for line in (spot[0], spot[2] + 1)]
        inside = [span for span in operations[slice(*lines)] if _within(span, spot)]
        counts.append({"operations": len(inside), "traced": sum(span in traced for span in inside)})
    return counts


def _spans(code: CodeType) -> Iterator[Span]:
    positions = getattr(code, "co_positions", None)
    if positions is None:
        for _, line in dis.findlinestarts(code):
            yield line, 0, line, 0
    else:
        for line, end_line, column, end_column in positions():
            if None not in (line, end_line, column, end_column):
                yield line, column, end_line, end_column
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _spans(constant)


def _within(span: Span, spot: Sequence[int]) -> bool:
    if span[1] == span[3] == 0 and span[0] == span[2]:
        return spot[0] <= span[0] <= spot[2]
    return (spot[0], spot[1]) <= span[:2] and span[2:] <= (spot[2], spot[3])
