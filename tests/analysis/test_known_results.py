"""Results that are known from a name or an operator alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import dynalint
from dynalint.analysis import analyze
from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call
from dynalint.analysis.kinds import Kind, Object, Tensor

HEAD = """\
import math
from math import pi

import torch
from torch import float16, nn
from torch.ao.quantization import MinMaxObserver, default_fake_quant
from torch.quantization import HistogramObserver
from elsewhere import lens_to_mask, something


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.observer = MinMaxObserver()
        self.former = HistogramObserver()
        self.quantizer = default_fake_quant()

    def forward(self, x: torch.Tensor, lens: torch.Tensor):
"""


def printed(tmp_path: Path, expression: str) -> Kind:
    (tmp_path / "code.py").write_text(f"{HEAD}        print({expression})\n")
    analysis = analyze([tmp_path / "code.py"], watched=lambda name: name if name == "builtins.print" else None)
    assert analysis.failures == []
    (call,) = (one for one in analysis.events if isinstance(one, Call))
    return call.args[0]


@pytest.mark.parametrize(
    ("expression", "dtype"),
    [
        ("lens_to_mask(lens)", "bool"),
        ("(x > 0) & something(lens)", "bool"),
        ("something(lens) | (x > 0)", "bool"),
        ("(x > 0) + something(lens)", None),
        ("x & something(lens)", None),
    ],
)
def test_mask(tmp_path: Path, expression: str, dtype: str | None) -> None:
    kind = printed(tmp_path, expression)
    assert isinstance(kind, Tensor)
    assert kind.dtype == dtype


@pytest.mark.parametrize("name", ["pi", "math.pi"])
def test_constant_by_either_import(tmp_path: Path, name: str) -> None:
    assert printed(tmp_path, name) == k.FLOAT


def test_dtype_imported_by_name(tmp_path: Path) -> None:
    assert printed(tmp_path, "float16") == printed(tmp_path, "torch.float16")


def test_unknown_function(tmp_path: Path) -> None:
    assert not isinstance(printed(tmp_path, "something(lens)"), Tensor)
    assert not isinstance(printed(tmp_path, "lens_to_mask(3)"), Tensor)


@pytest.mark.parametrize(
    ("attribute", "name"),
    [("observer", "MinMaxObserver"), ("former", "HistogramObserver"), ("quantizer", "FakeQuantizeBase")],
)
def test_observer(tmp_path: Path, attribute: str, name: str) -> None:
    assert printed(tmp_path, f"self.{attribute}") == Object(f"torch.ao.quantization.{name}")
    assert isinstance(printed(tmp_path, f"self.{attribute}(x)"), Tensor)
    assert isinstance(printed(tmp_path, f"self.{attribute}.calculate_qparams()[1]"), Tensor)


@pytest.mark.parametrize(
    ("owner", "call", "number"),
    [
        ("np.random.RandomState", "randint(1, 4)", True),
        ("np.random.RandomState", "uniform(0, 1)", True),
        ("np.random.RandomState", "rand()", True),
        ("np.random.Generator", "integers(1, high=4)", False),
        ("np.random.Generator", "normal(size=None)", True),
        ("np.random.RandomState", "randint(1, 4, 3)", False),
        ("np.random.Generator", "integers(1, 4, size=(2,))", False),
        ("np.random.RandomState", "rand(2)", False),
        ("np.random.Generator", "permutation(3)", False),
    ],
)
def test_generator_draws_a_number_or_an_array(owner: str, call: str, number: bool) -> None:
    code = f"""
import numpy as np
import torch

class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, rng: {owner}):
        drawn = rng.{call}
        if (drawn > 1){"" if number else ".all()"}:
            x = x + 1
        return x
"""
    found = [(one.line, one.code) for one in dynalint.check_source("m.py", code)]
    assert found == [(7, "DYN408"), *([] if number else [(8, "DYN101")])]
