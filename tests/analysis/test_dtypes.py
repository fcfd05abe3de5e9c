"""What the inference knows of dtypes, masks above all: the class of the value that each expression gives."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from dynalint.analysis import analyze
from dynalint.analysis import kinds as k
from dynalint.analysis.events import Subscript

PRELUDE = """\
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Output(dict):
    mask: torch.Tensor | None = None

    def __init_subclass__(cls):
        pass


def valid(lengths, size):
    return torch.arange(size)[None, :] < lengths[:, None]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("diagonal", torch.eye(4, dtype=torch.bool))

    def forward(self, x: torch.Tensor, ids: torch.LongTensor, mask: torch.BoolTensor | None, labels, other):
        flags = x > 0
        return VALUE
"""

BOOL = (
    "x > 0",
    "~flags & (x < 1)",
    "~x",
    "mask != 0",
    "mask | flags",
    "mask[..., None]",
    "self.diagonal.unsqueeze(0).expand(2, 4, 4)",
    "valid(ids, 8)",
    "x.to(torch.bool)",
    "x.to('cpu', torch.bool)",
    "x.to(flags.dtype)",
    "x.type(torch.BoolTensor)",
    "x.type_as(flags)",
    "flags.to(x.device)",
    "flags.to(other.device)",
    "flags.to(other.device, non_blocking=True)",
    "torch.zeros(3, dtype=torch.bool)",
    "torch.ones_like(x, dtype=bool)",
    "torch.full((3,), True)",
    "torch.tensor([[True], [False]])",
    "torch.cat([flags, mask])",
    "flags.expand_as(x)",
    "flags.gather(1, ids)",
    "flags.masked_fill(x > 1, torch.tensor(False))",
    "flags.repeat_interleave(ids, dim=0)",
    "torch.isfinite(x).all(-1)",
    "F.pad(flags, (1, 0))",
    "Output(mask=flags).mask",
    "x[..., :-1][labels[..., 1:] != 0] > 0",
    "flags * self.diagonal",
)
INT = (
    "flags.long()",
    "flags.sum(-1)",
    "flags + 1",
    "flags.nonzero()",
    "np.where(x.numpy() > 0)[0]",
    "torch.where(flags)[0]",
    "torch.arange(4)",
    "torch.tensor([1, 2])",
    "ids[flags]",
    "torch.gather(ids, 1, ids)",
    "x.to(dtype=torch.int8)",
    "x.byte()",
)
FLOAT = (
    "x.half()",
    "flags.to(torch.bfloat16)",
    "torch.full((3,), 0.5)",
    "torch.zeros(3)",
    "flags / 2",
    "1 - flags.float()",
)
UNKNOWN = (
    "x",
    "x[flags]",
    "flags.to(x.dtype)",
    "x.to(other)",
    "flags.to(other)",
    "torch.zeros(3, dtype=other)",
    "np.maximum(x.numpy(), other)",
)


def value_of(tmp_path: Path, code: str) -> k.Kind:
    """Return the kind of an expression in the `forward` of the prelude."""
    path = tmp_path / "code.py"
    path.write_text(textwrap.dedent(PRELUDE).replace("VALUE", code))
    analysis = analyze([path], watched=lambda name: None)
    assert analysis.failures == []
    forward = next(function for function in analysis.functions if function.name == "forward")
    returned = next(node for node in ast.walk(forward.node) if isinstance(node, ast.Return))
    assert returned.value is not None
    return analysis.project.kinds(forward)[returned.value]


@pytest.mark.parametrize(
    ("code", "dtype"),
    [
        (code, dtype)
        for codes, dtype in ((BOOL, "bool"), (INT, "int"), (FLOAT, "float"), (UNKNOWN, None))
        for code in codes
    ],
)
def test_dtype(tmp_path: Path, code: str, dtype: str | None) -> None:
    tensor = k.only_tensor(value_of(tmp_path, code))
    assert tensor is not None
    assert tensor.dtype == dtype


def test_the_rank_of_what_always_has_the_same(tmp_path: Path) -> None:
    for code, rank in {
        "torch.nonzero(x)[0, 1]": 0,
        "x.nonzero()[:, 0]": 1,
        "torch.arange(4)": 1,
        "torch.rand(())": 0,
        "torch.zeros([]).uniform_(0, 1)": 0,
        "torch.randint(1, 5, size=(2, 3))": 2,
        "torch.ones((*x.shape, 1))": None,
        "torch.zeros(x.shape)": None,
        "flags.long()": None,
    }.items():
        tensor = k.only_tensor(value_of(tmp_path, code))
        assert tensor is not None
        assert tensor.rank == rank


def test_a_dtype_has_one_value_under_its_two_names(tmp_path: Path) -> None:
    assert value_of(tmp_path, "torch.half == torch.float16") == k.Value("bool", True)
    assert value_of(tmp_path, "torch.half == torch.float32") == k.Value("bool", False)
    assert value_of(tmp_path, "x.dtype == torch.float32") == k.BOOL


def test_a_caller_that_says_nothing_of_a_dtype_hides_none(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text(
        textwrap.dedent("""\
        import torch
        from torch import nn


        class Inner(nn.Module):
            def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None):
                return x[mask]


        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()

            def forward(self, x):
                return self.inner(x, mask=x.sum(-1) > 0)
    """)
    )
    analysis = analyze([path], watched=lambda name: None)
    masks = [event.index for event in analysis.events if isinstance(event, Subscript)]
    tensors = [k.only_tensor(mask) for mask in masks]
    assert [tensor.dtype if tensor else None for tensor in tensors] == ["bool"]
