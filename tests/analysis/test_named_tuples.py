"""Methods of named tuples."""

from __future__ import annotations

import pytest

import dynalint

CODE = """
import torch
from torch import nn
from typing import NamedTuple

class Batch(NamedTuple):
    logits: torch.Tensor
    targets: torch.Tensor
    weight: torch.Tensor | None = None

    def select(self, rows: torch.Tensor):
        return Batch(self.logits[rows], self.targets[rows])

    def total(self):
        return self.logits.sum().item()

    @property
    def mean(self):
        return self.logits.mean().item()

    @classmethod
    def positive(cls, x):
        return cls(x[x > 0], x)

class Model(nn.Module):
    def merge(self, x):
        return Batch(logits=x, targets=x)

    def forward(self, x: torch.Tensor):
        batch = Batch(x, x)
        {body}
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return batch.select(batch.targets != 0).logits", "return Batch(self.logits[rows], self.targets[rows])"),
        ("return x * batch.total()", "return self.logits.sum().item()"),
        ("return x * self.merge(x).total()", "return self.logits.sum().item()"),
        ("return x * batch.mean", "return self.logits.mean().item()"),
        ("return batch.positive(x).logits", "return cls(x[x > 0], x)"),
        ("return batch.select(torch.tensor([0])).logits + batch.count(1)", ""),
    ],
)
def test_methods_are_followed(body: str, found: str) -> None:
    code = CODE.replace("{body}", body)
    findings = dynalint.check_source("m.py", code)
    lines = {code.splitlines()[one.line - 1].strip() for one in findings if one.category == "graph-break"}
    assert lines == ({found} if found else set())
