"""Methods that visit all parts of a module, whose classes may contain each other."""

from __future__ import annotations

from typing import Any

import pytest

import dynalint
from dynalint.analysis import recurrent_parts
from dynalint.analysis.kinds import Kind


def _program(number: int) -> str:
    """Return modules that each may contain all the others. The last one has a recurrent layer."""
    lines = ["import torch", "from torch import nn"]
    for one in range(number):
        lines += [f"class M{one}(nn.Module):", "    def __init__(self):", "        super().__init__()"]
        lines += ["        self.layer = nn.LSTM(2, 2)"] if one == number - 1 else []
        lines += ["    def grow(self, depth):", "        if depth == 0:", "            return"]
        for other in range(number):
            if other != one:
                lines += [f"        self.part{other} = M{other}()", f"        self.part{other}.grow(depth - 1)"]
    lines += ["class Model(nn.Module):", "    def __init__(self):", "        super().__init__()"]
    lines += ["        self.first = M0()", "        self.first.grow(2)", "    def forward(self, x):"]
    return "\n".join([*lines, "        self.first.eval()", "        return x", ""])


def test_a_layer_is_found_in_modules_that_may_contain_each_other() -> None:
    text = _program(4)
    found = [one.line for one in dynalint.check_source("m.py", text) if one.code == "DYN601"]
    assert found == [text.splitlines().index("        self.first.eval()") + 1]


def test_none_is_found_if_one_of_the_values_has_none() -> None:
    text = _program(4).replace("        self.first = M0()", "        self.first = M0() if torch.rand(1) else nn.ReLU()")
    assert not [one for one in dynalint.check_source("m.py", text) if one.code == "DYN601"]


def _reads(number: int, monkeypatch: pytest.MonkeyPatch) -> int:
    reads, stored = 0, recurrent_parts.stored

    def counted(*args: Any) -> Kind:
        nonlocal reads
        reads += 1
        return stored(*args)

    with monkeypatch.context() as patch:
        patch.setattr(recurrent_parts, "stored", counted)
        dynalint.check_source("m.py", _program(number).replace("nn.LSTM", "nn.Linear"))
    return reads


def test_modules_are_not_visited_once_for_each_path_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (_reads(number, monkeypatch) for number in (4, 8))
    assert 0 < many < 8 * few  # there are four times as many pairs, and 8,660 paths instead of 10
