"""Calls that any of several project functions may receive, some of which cannot be meant because of the arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

import dynalint

MODELS = """
import torch
from torch import nn, Tensor

class Decoder(nn.Module):
    def forward(self, x: Tensor, mask: Tensor | None = None, offset: int = 0):
        if offset:
            x = x[:, offset:]
        return x if mask is None else x * mask

class Both(nn.Module):
    def forward(self, x: Tensor, y: Tensor, mask: Tensor, other: Tensor, hidden: bool = False):
        return x * mask + y * other

class Trainer:
    def __init__(self, model):
        self.model = model

    def step(self, x: Tensor, y: Tensor):
        return self.model.forward(CALL)

for model in (Decoder(), Both()):
    Trainer(model).step(torch.ones(2, 3), torch.ones(2, 3))
"""


@pytest.mark.parametrize("call", ["x, y, x > 0, y > 0", "x, y, x > 0, other=y", "x, y, mask=x, other=y"])
def test_a_class_whose_parameters_do_not_fit_is_not_meant(tmp_path: Path, call: str) -> None:
    (tmp_path / "models.py").write_text(MODELS.replace("CALL", call))
    assert dynalint.check([tmp_path], static=True) == []


@pytest.mark.parametrize(
    ("annotation", "second", "found"),
    [
        ("int", "masked", False),
        ("dict | None", "masked", False),
        ("Tensor", "masked", True),
        ("int", "plain", True),  # nothing else can be meant, so the annotation is wrong
    ],
)
def test_a_tensor_is_not_meant_for_a_number(tmp_path: Path, annotation: str, second: str, found: bool) -> None:
    (tmp_path / "code.py").write_text(
        f"""
import torch
from torch import nn, Tensor

def plain(x: Tensor, given: {annotation}):
    return x if given else -x

def masked(x: Tensor, given: Tensor):
    return torch.where(given > 0, x, -x)

class Model(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.function = plain if kind == "plain" else {second}

    def forward(self, x: Tensor):
        return self.function(x, x.abs())
"""
    )
    assert bool(dynalint.check([tmp_path], static=True)) is found


@pytest.mark.parametrize(
    ("annotation", "found"), [(": Tensor", ["DYN301"]), (": Tensor | None", ["DYN301"]), (": tuple", []), ("", [])]
)
def test_a_parameter_that_is_declared_as_a_tensor_gets_no_tuple(
    tmp_path: Path, annotation: str, found: list[str]
) -> None:
    (tmp_path / "code.py").write_text(
        f"""
import torch
from torch import nn, Tensor

def encoded(x: Tensor, full: bool):
    if full:
        return x, {{}}
    return x

def picked(h{annotation}, keep: Tensor):
    return [row[keep[i]] for i, row in enumerate(h)]

class Model(nn.Module):
    def forward(self, x: Tensor, full: bool):
        return picked(encoded(x, full), x > 0)
"""
    )
    assert [one.code for one in dynalint.check([tmp_path], static=True)] == found
