"""Fixes that need follow-up rewrites, as `check` shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

import dynalint
from dynalint.findings import Fix


def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, branch: str) -> Fix:
    monkeypatch.chdir(tmp_path)
    code = f"""\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum().item() > 0:
            {branch}
        return x
"""
    (finding,) = dynalint.check_source("model.py", code, isolated=True)
    assert finding.fix is not None
    return finding.fix


def test_a_fix_is_shown_with_the_rewrites_that_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fix = shown(tmp_path, monkeypatch, "x = x * 2")
    assert [edit.content for edit in fix.edits] == ["        x = torch.where(x.sum() > 0, x * 2, x)\n"]


def test_a_first_step_alone_is_no_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fix = shown(tmp_path, monkeypatch, "self.last = None")
    assert fix.declined is not None
    assert fix.declined.startswith("it would leave a DYN101 on line 7: a branch stores state")
    assert not fix.edits
