"""What no example can show of state that grows: code that has nothing to compile."""

from __future__ import annotations

import dynalint

_COUNTING = """
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        seen = [{value}]
        self.calls += 1
        return seen
"""


def test_a_count_in_code_without_operations_is_not_flagged() -> None:
    assert not dynalint.check_source("model.py", _COUNTING.format(value="self.calls"))


def test_a_count_beside_an_operation_is_flagged() -> None:
    assert [finding.code for finding in dynalint.check_source("model.py", _COUNTING.format(value="x * 2"))] == [
        "DYN501"
    ]
