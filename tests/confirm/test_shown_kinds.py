"""An argument without annotation is what a run shows it to be, if the graph broke in this run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.in_process import in_process

from .conftest import walls_stand

pytestmark = [
    pytest.mark.dynamo,
    pytest.mark.may_skip,
    pytest.mark.xdist_group("worker"),
    pytest.mark.skipif(not walls_stand(), reason="no sandbox holds on this machine"),
]

MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def padding(self, x, lengths):
        mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        for i, n in enumerate(lengths):
            mask[i, :n] = False
        return mask

    def forward(self, x, lengths):
        return self.linear(x) * self.padding(x, lengths).unsqueeze(-1)
"""
# The lengths are a list here.
TESTS = """\
import torch
from model import Model


def test_model():
    Model()(torch.ones(2, 3, 8), [2, 3])
"""
# The code accepts a number as well.
CHOICE = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor, double):
        if double:
            return x * 2
        return x
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = folder / "model.py"
    if not path.exists():
        path.write_text(MODEL)
    (folder / "pyproject.toml").write_text("")
    return in_process([*arguments, "--no-cache", "--color", "never", "."], folder, {"PATH": "/usr/bin:/bin"})


def test_the_rule_that_fits_takes_the_place_of_what_only_the_run_showed(tmp_path: Path) -> None:
    ran = run(tmp_path, "check", "--confirm", "--output-format", "concise")
    assert "model.py:13:22: DYN203" in ran.stdout
    assert "DYN001" not in "".join(line for line in ran.stdout.splitlines() if line.startswith("model.py:13"))
    assert "lengths=int[5]" in run(tmp_path, "check", "--confirm").stdout
    # Without a run, nothing is known about the lengths.
    assert "DYN203" not in run(tmp_path, "check", "--static").stdout


@pytest.mark.parametrize("apply", [True, False])
def test_the_fix_of_the_rule_is_verified_and_made(tmp_path: Path, apply: bool) -> None:
    ran = run(tmp_path, "fix", *(["--apply"] if apply else []))
    text = (tmp_path / "model.py").read_text() if apply else ran.stdout
    assert "+        mask[torch.arange" in text or "\n        mask[torch.arange" in text
    assert "1 verified by running the code" in ran.stderr


def test_lists_in_the_tests_of_the_project_leave_it_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "test_model.py").write_text(TESTS)
    ran = run(tmp_path, "fix", "--apply")
    assert (tmp_path / "model.py").read_text() == MODEL
    assert "nothing to fix" in ran.stderr or "DYN203" not in ran.stdout + ran.stderr


def test_a_guess_shows_nothing_if_the_code_accepts_a_number_or_a_list_as_well(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(CHOICE)
    ran = run(tmp_path, "fix", "--apply")
    assert (tmp_path / "model.py").read_text() == CHOICE
    assert "DYN101" not in ran.stdout + ran.stderr
