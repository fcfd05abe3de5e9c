"""Parameters without annotations, which show that they are tensors by what the code does with them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from dynalint.analysis import analyze
from dynalint.analysis.events import Branch, Subscript
from dynalint.analysis.kinds import only_tensor

HEAD = """import einops
import numpy as np
import torch
from torch import nn

class Halved(nn.Linear):
    scale = 2

class Wrapper(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, y):
        return self.fc(y)

class Model(nn.Module):
    def __init__(self, net, plain=True):
        super().__init__()
        self.given = net
        self.layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.wrapped = nn.Sequential(Wrapper(), nn.ReLU())
        self.mixed = nn.Sequential(net, nn.ReLU())
        self.many = nn.Sequential(*[nn.Linear(3, 3) for _ in range(net)])
        self.norm = nn.BatchNorm1d(3) if plain else nn.LayerNorm(3)
        self.either = nn.Linear(3, 3) if plain else net
        self.halved = Halved(3, 3)
        self.steps = np.arange(4)

"""


@pytest.mark.parametrize(
    ("use", "shown"),
    [
        ("self.layers(x)", True),
        ("self.wrapped(x)", True),
        ("self.many(x)", True),
        ("self.norm(x)", True),
        ("self.halved(x)", True),
        ("self.mixed(x)", False),
        ("self.either(x)", False),
        ("self.given(x)", False),
        ("torch.einsum('ij,jk->ik', self.halved.weight, x)", True),
        ("torch.einsum(self.given, x)", False),
        ("einops.rearrange(x, 'a b -> b a')", True),
        ("einops.repeat(self.given, x)", False),
        ("1.0 - x.float()", True),
        ("x.float()", False),
        ("1.0 - x.float(2)", False),
        ("self.layers(x.requires_grad_(True))", True),
    ],
)
def test_parameter_that_is_used_as_a_tensor(tmp_path: Path, use: str, shown: bool) -> None:
    method = f"    def forward(self, x):\n        if x > 0:\n            return None\n        return {use}\n"
    (tmp_path / "code.py").write_text(HEAD + method)
    analysis = analyze([tmp_path / "code.py"])
    assert analysis.failures == []
    tests = [one for one in analysis.events if isinstance(one, Branch) and only_tensor(one.kind) is not None]
    assert bool(tests) is shown


@pytest.mark.parametrize(
    ("steps", "rank"),
    [
        ("self.steps.copy()", 1),
        ("self.steps[::-1].copy()", 1),
        ("np.flip(self.steps)", 1),
        ("np.array([0, 2, 3])", 1),
        ("np.asarray(list(range(4)))", 1),
        ("np.cumsum([0, 2, 3])", 1),
        ("np.array([[0, 2], [1, 3]])", None),
        ("np.array(x)", None),
        ("self.steps[x > 0]", 1),
        ("np.flip(self.steps.reshape(2, 2), axis=0)", None),
    ],
)
def test_rank_of_an_array(tmp_path: Path, steps: str, rank: int | None) -> None:
    method = f"    def forward(self, x):\n        steps = {steps}\n        return x[steps]\n"
    (tmp_path / "code.py").write_text(HEAD + method)
    analysis = analyze([tmp_path / "code.py"])
    assert analysis.failures == []
    event = next(one for one in analysis.events if isinstance(one, Subscript) and ast.unparse(one.node) == "x[steps]")
    tensor = only_tensor(event.index)
    assert tensor is not None
    assert tensor.rank == rank


LOSSES = """
class Part(nn.Module):
    def forward(self, loss, total):
        if total > 1:
            return loss / total
        return loss

class Loss:
    def __init__(self):
        self.part = %s

    def __call__(self, scores: torch.Tensor):
        return self.part(scores, scores.sum())
"""


@pytest.mark.parametrize(("made", "shown"), [("Part()", True), ("Part().cuda()", True), ("None", False)])
def test_kinds_come_from_a_loss_that_is_no_module(tmp_path: Path, made: str, shown: bool) -> None:
    (tmp_path / "code.py").write_text(HEAD + LOSSES % made)
    analysis = analyze([tmp_path / "code.py"])
    assert analysis.failures == []
    tests = [one for one in analysis.events if isinstance(one, Branch) and only_tensor(one.kind) is not None]
    assert bool(tests) is shown


@pytest.mark.parametrize("forward", ["", "def forward(self, x):\n        return x\n\n    "])
def test_module_that_replaces_the_call_is_entered_there(tmp_path: Path, forward: str) -> None:
    method = f"{forward}def __call__(self, x: torch.Tensor):"
    body = f"class Operator(nn.Module):\n    {method}\n        return x[0] if x > 0 else x\n"
    (tmp_path / "code.py").write_text(HEAD + body)
    analysis = analyze([tmp_path / "code.py"])
    assert analysis.failures == []
    assert any(isinstance(one, Branch) and one.function.name == "__call__" for one in analysis.events)


MIXINS = """
class Base(nn.Module):
    def forward(self, x):
        return x

class Clipped:
    def forward(self, x):
        x = super().forward(x)
        return x / x.max() if x.max() > 1 else x

class Logged:
    def forward(self, x):
        return super().forward(x)

class Both(%s):
    pass
"""


@pytest.mark.parametrize(
    ("bases", "found"), [("Logged, Clipped, Base", True), ("Clipped, Base", True), ("Logged, Base", False)]
)
def test_super_of_a_mixin_is_the_next_base_of_the_class_that_has_both(tmp_path: Path, bases: str, found: bool) -> None:
    (tmp_path / "code.py").write_text(HEAD + MIXINS % bases)
    analysis = analyze([tmp_path / "code.py"])
    assert analysis.failures == []
    assert any(isinstance(one, Branch) and one.function.reached for one in analysis.events) is found
