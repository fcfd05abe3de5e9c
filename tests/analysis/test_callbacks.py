"""Functions that are handed to others, which call them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalint.analysis import analyze
from dynalint.analysis.events import Branch
from dynalint.analysis.kinds import only_tensor

CODE = """
import functools
import itertools
import torch
from torch import nn, Tensor, vmap
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint

def one(t, flag=None):
    if t:
        return t
    return t

def two(s, t):
    if t:
        return t
    return s

class Model(nn.Module):
    def forward(self, x: Tensor, xs: list[Tensor], tree: dict[str, Tensor]):
        result = {called}
        if {tested}:
            return x
"""


@pytest.mark.parametrize(
    ("called", "tested"),
    [
        ("list(map(one, xs))", "result[0]"),
        ("list(filter(one, xs))", "result[0]"),
        ("functools.reduce(two, xs)", "result"),
        ("functools.reduce(two, xs, x)", "result"),
        ("list(itertools.starmap(two, [(x, x)]))", "result[0]"),
        ("tree_map(one, tree)", "result['a']"),
        ("vmap(one)(x)", "result"),
        ("torch.func.vmap(one, in_dims=0)(x)", "result"),
        ("torch.func.grad(one)(x)", "result"),
        ("torch.func.jacrev(one)(x)", "result"),
        ("torch.func.vjp(one, x)", "result[0]"),
        ("torch.func.jvp(one, (x,), (x,))", "result[1]"),
        ("checkpoint(one, x, flag=True, use_reentrant=False)", "result"),
    ],
)
def test_function_that_is_called_back(tmp_path: Path, called: str, tested: str) -> None:
    (tmp_path / "code.py").write_text(CODE.replace("{called}", called).replace("{tested}", tested))
    analysis = analyze([tmp_path / "code.py"])
    assert analysis.failures == []
    found = [one for one in analysis.events if isinstance(one, Branch) and only_tensor(one.kind) is not None]
    assert [one.function.file.segment(one.node) for one in found] == ["t", tested]


@pytest.mark.parametrize("transform", ["grad", "jacrev", "hessian"])
def test_derivative_has_the_structure_of_the_parameters(tmp_path: Path, transform: str) -> None:
    called = f"torch.func.{transform}(one)(tree)"
    code = CODE.replace("{called}", called).replace("{tested}", "result")
    code = code.replace("if t:", "if t['a']:").replace("return t\n", "return t['a']\n")
    (tmp_path / "code.py").write_text(code)
    found = [one for one in analyze([tmp_path / "code.py"]).events if isinstance(one, Branch)]
    tensors = [one for one in found if only_tensor(one.kind) is not None]
    assert [one.function.file.segment(one.node) for one in tensors] == ["t['a']"]
