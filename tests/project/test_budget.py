"""A file ends within its budget. The report says what is left undone, and how to go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Dynalint

pytestmark = [pytest.mark.dynamo, pytest.mark.may_skip]

MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x * 2
        return x - 1
"""
SPENT = "the budget of 0.01 s of processor time is used up; --budget sets it"


@pytest.fixture
def short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynalint.confirming._SECONDS_PER_FILE", 0.01)
    (tmp_path / "model.py").write_text(MODEL)


@pytest.mark.usefixtures("short")
def test_what_the_budget_does_not_reach_is_told(confirming: Dynalint) -> None:
    arguments = ("--isolated", "--no-cache", "model.py")
    checked = confirming("check", "--output-format", "json", *arguments)
    (finding,) = checked.findings
    assert finding["evidence"]["detail"] == f"not reached: {SPENT}."
    fixed = confirming("fix", "--select", "DYN101", *arguments)
    assert SPENT in fixed.out + fixed.err
    more = confirming("fix", "--select", "DYN101", "--budget", "200", *arguments)
    assert "torch.where" in more.out, more.err
