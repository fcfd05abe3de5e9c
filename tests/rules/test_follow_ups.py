"""Fixes that need follow-up rewrites, as `check` shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

import dynalint


def test_a_fix_is_shown_with_the_rewrites_that_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum().item() > 0:
            x = x * 2
        return x
"""
    (finding,) = dynalint.check_source("model.py", code, isolated=True)
    assert finding.fix is not None
    assert [edit.content for edit in finding.fix.edits] == ["        x = torch.where(x.sum() > 0, x * 2, x)\n"]


def test_a_first_step_alone_is_no_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum().item() > 0:
            self.last = None
        return x
"""
    (finding,) = dynalint.check_source("model.py", code, isolated=True)
    assert finding.fix is not None
    assert finding.fix.declined is not None
    assert finding.fix.declined.startswith("it would leave a DYN101 on line 7: a branch stores state")
    assert not finding.fix.edits
