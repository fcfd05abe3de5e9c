"""Methods of the project that Python itself calls: for lengths, loops, comparisons, items and truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalint.analysis import analyze
from dynalint.analysis.events import Branch
from dynalint.analysis.kinds import only_tensor

CODE = """
import numpy as np
import torch
from torch import nn, Tensor

class Cursor:
    def __init__(self, items):
        self.items = items

    def __next__(self):
        return torch.ones(3)

class Bag:
    def __init__(self, data: Tensor):
        self.data = data

    def __len__(self):
        return np.prod(self.data.shape[:-1])

    def __iter__(self):
        return Cursor(self.data)

    def __contains__(self, other):
        return bool(self.data.sum() > 0)

    def __eq__(self, other):
        if self.data.sum() > other:
            return True
        return self.data.sum() > 1

    def __setitem__(self, index, value):
        if self.data.max() > value:
            self.data[index] = value

class Shelf:
    def __getitem__(self, index):
        return torch.ones(3)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = Bag(torch.ones(3))
        self.size = len(self.bag)

    def forward(self, x: Tensor):
        bag = Bag(x)
        {statement}
"""


@pytest.mark.parametrize(
    ("statement", "tested"),
    [
        ("return x if len(bag) > 0 else None", ["len(bag) > 0"]),
        ("return x if bag else None", ["bag"]),
        ("return x if self.size > 0 else None", []),
        ("return [t for t in bag if t]", ["t"]),
        ("return [t for t in Shelf() if t]", ["t"]),
        ("a, b = bag; return x if a else b", ["a"]),
        ("return x if list(bag)[0] else None", ["list(bag)[0]"]),
        ("return [a for a, _ in zip(bag, range(3)) if a]", ["a"]),
        ("return x if bag == x.max() else None", ["self.data.sum() > other"]),
        ("bag[0] = x.max(); return x", ["self.data.max() > value"]),
        ("return x if bag in [1, 2] else None", []),
        ("return x if len(Shelf()) else None", []),
    ],
)
def test_special_methods(tmp_path: Path, statement: str, tested: list[str]) -> None:
    (tmp_path / "code.py").write_text(CODE.replace("{statement}", statement))
    analysis = analyze([tmp_path / "code.py"])
    assert analysis.failures == []
    found = [one for one in analysis.events if isinstance(one, Branch) and only_tensor(one.kind) is not None]
    assert sorted(one.function.file.segment(one.node) for one in found) == sorted(tested)


def test_what_membership_runs(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(CODE.replace("{statement}", "return x if 3 in bag else None"))
    assert "Bag.__contains__" in [function.qualname for function in analyze([tmp_path / "code.py"]).functions]
