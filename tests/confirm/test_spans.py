"""Operations counted by place."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest

from dynalint.confirm.worker.dynamo.records import Span
from dynalint.confirm.worker.source import spans

CODE = """\
def f(x):
    y = x + 1; z = y * 2
    return [a * (
        b + 1
    ) for a, b in z]
"""


def every(spot: Span, operations: Sequence[Span], traced: set[Span]) -> dict[str, int]:
    """Count by looking at each operation."""
    inside = [span for span in operations if spot[:2] <= span[:2] and span[2:] <= spot[2:]]
    return {"operations": len(inside), "traced": len(traced.intersection(inside))}


@pytest.mark.may_skip
@pytest.mark.skipif(sys.version_info < (3, 11), reason="bytecode has no columns before Python 3.11")
@pytest.mark.parametrize(
    "spot", [(2, 4, 2, 13), (2, 15, 2, 24), (3, 11, 5, 20), (3, 12, 5, 5), (4, 8, 4, 13), (1, 0, 5, 20), (9, 0, 9, 9)]
)
def test_operations_within_a_spot_are_counted(spot: Span) -> None:
    known = spans.operations_of(CODE, "f.py")
    assert list(known) == sorted(set(known))
    operations = [span for span in known if span[:2] != span[2:]]
    traced = set(operations[::2])
    expected = every(spot, operations, traced)
    assert spans.count([spot], operations, traced) == [expected]
    assert (expected["operations"] > 0) == (spot[0] < 9)


def test_whole_lines_count_where_columns_are_not_known() -> None:
    operations = [(2, 0, 2, 0), (3, 0, 3, 0), (4, 0, 4, 0), (7, 0, 7, 0)]
    assert spans.count([[3, 11, 4, 2]], operations, {(4, 0, 4, 0)}) == [{"operations": 2, "traced": 1}]
