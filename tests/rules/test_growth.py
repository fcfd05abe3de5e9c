"""What no example can show of state that grows: code that has nothing to compile."""

from __future__ import annotations

import pytest

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


_OPTIONAL = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, track=False):
        super().__init__()
        self.log = None
        if track:
            self.log = {made}

    def forward(self, x: torch.Tensor):
        if {test}:
            {change}
        return x * 2
"""


@pytest.mark.parametrize(
    ("made", "test", "change", "grows"),
    [
        ("[]", "self.log is not None", "self.log.append(x)", True),
        ("dict(a=[])", "self.log is not None", 'self.log["a"].append(x)', True),
        ("[]", "self.training and self.log is not None", "self.log.append(x)", True),
        ("[]", "self.log is not None and len(self.log) < 3", "self.log.append(x)", False),
        ("[]", "self.log is not None and not self.log", "self.log.append(x)", False),
        ("None", "self.log is not None", "self.log.append(x)", False),
        ("dict()", "self.log is not None", 'self.log["a"] = x', False),
    ],
)
def test_list_that_may_be_none(made: str, test: str, change: str, grows: bool) -> None:
    found = dynalint.check_source("m.py", _OPTIONAL.format(made=made, test=test, change=change))
    assert any(one.code == "DYN503" for one in found) is grows
