"""Prints under a test of data: the guard before the test removes both breaks, and running it shows one graph."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from .test_generated import fix

pytestmark = pytest.mark.dynamo

MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor):
{body}


def example():
    return Model(), (torch.linspace(-2, 2, 12).reshape(3, 4), torch.linspace(1, -1, 12).reshape(3, 4))
"""


def test_a_check_of_data_that_only_prints_goes_behind_the_guard_as_a_whole(tmp_path: Path) -> None:
    body = """
    h = self.layer(x) * y
    if h.isnan().any() or h.max() > 0.1:
        print("out of range", h.max())
    return h
    """
    code = MODEL.format(body=textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8))
    result = fix(tmp_path / "model.py", code)
    lines = [line.strip() for line in result.files[0].text.splitlines()]
    assert (
        lines[lines.index("h = self.layer(x) * y") + 1]
        == "if not torch.compiler.is_compiling() and (h.isnan().any() or h.max() > 0.1):"
    )
    assert not result.remaining
    assert {one.finding.code for one in result.fixed} == {"DYN101", "DYN401"}
    assert {one.verification.outcome for one in result.fixed if one.verification} == {"proven"}
