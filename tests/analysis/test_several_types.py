"""Variables that a test narrows to one of several types."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

import dynalint
from dynalint.analysis import analyze
from dynalint.analysis.events import Branch
from dynalint.analysis.kinds import only_tensor

CODE = """
import numpy as np
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, other):
        y = self.function(x)
        if TEST:
            if y:
                return y
        return x
"""


@pytest.mark.parametrize(
    ("test", "certain"),
    [
        ("torch.is_tensor(y) or isinstance(y, np.ndarray)", True),
        ("isinstance(y, (torch.Tensor, np.ndarray))", True),
        ("(isinstance(y, nn.Parameter) or torch.is_tensor(y)) and len(y.shape) == 0", True),
        ("isinstance(y, np.ndarray)", False),
        ("isinstance(y, np.ndarray) or isinstance(y, float)", False),
        ("isinstance(y, (np.ndarray, np.ndarray))", False),
        ("torch.is_tensor(y) or isinstance(y, int)", False),
        ("torch.is_tensor(y) or isinstance(other, torch.Tensor)", False),
        ("torch.is_tensor(y) or other", False),
        ("isinstance(y, (torch.Tensor, list))", False),
    ],
)
def test_only_types_that_every_alternative_allows(tmp_path: Path, test: str, certain: bool) -> None:
    (tmp_path / "code.py").write_text(CODE.replace("TEST", test))
    found = [one for one in analyze([tmp_path / "code.py"]).events if isinstance(one, Branch)]
    tensors = [one for one in found if only_tensor(one.kind) is not None]
    assert any(one.function.file.segment(one.node) == "y" for one in tensors) is certain


@pytest.mark.parametrize(("annotation", "default", "found"), [("float", "'auto'", True), ("float", "1", False)])
def test_default_that_contradicts_its_annotation(tmp_path: Path, annotation: str, default: str, found: bool) -> None:
    (tmp_path / "code.py").write_text(
        f"""
from torch import nn, Tensor

class Model(nn.Module):
    def __init__(self, scale: {annotation} = {default}):
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor):
        if isinstance(self.scale, str):
            if x.sum() > 0:
                return x
        return x * 2
"""
    )
    tests = [one for one in analyze([tmp_path / "code.py"]).events if isinstance(one, Branch)]
    assert any(only_tensor(one.kind) is not None for one in tests) is found


def test_a_branch_for_what_is_no_tensor_is_not_taken_by_tensors(tmp_path: Path) -> None:
    code = """
    import torch
    from torch import is_tensor, nn

    class Positions(nn.Module):
        def forward(self, given):
            return given * 2 if is_tensor(given) else torch.arange(given)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.positions = Positions()

        def forward(self, x: torch.Tensor):
            return self.positions(x) + self.positions(x.shape[0])
    """
    assert dynalint.check_source("code.py", textwrap.dedent(code)) == []
