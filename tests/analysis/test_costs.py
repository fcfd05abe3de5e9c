"""What a finding costs: loops around it, the function that Dynamo gives up for it, and tensors that it reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dynalint
from dynalint.findings import NO_COST, Cost

# Loops over numbers have findings of their own.
SETTINGS = {"ignore": ["DYN8"]}

HEAD = """
import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return x


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()

    def forward(self, x):
        print("layer")
        return self.attention(x)
"""

LOOP = """

class Model(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(depth)])

    def forward(self, x):
        x = x * 2
        for layer in self.layers:
            x = layer(x)
        return x
"""

SEQUENCE = """

class Model(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.layers = nn.Sequential(*[Layer() for _ in range(depth)])

    def forward(self, x):
        return self.layers(x)
"""

LISTED = """

class Model(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(depth)])

    def forward(self, x):
        return torch.stack([layer(x) for layer in self.layers])
"""

ALONE = """

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer()

    def forward(self, x):
        x = x * 2
        return self.layer(x)
"""


def costs(text: str, tmp_path: Path) -> dict[str, Cost]:
    """The cost of each finding, by its code."""
    file = tmp_path / "model.py"
    file.write_text(text, encoding="utf-8")
    return {one.code: one.cost for one in dynalint.check([file], static=True, settings=SETTINGS)}


def test_a_layer_called_in_a_loop_costs_the_function_with_the_loop(tmp_path: Path) -> None:
    assert costs(HEAD + LOOP, tmp_path) == {
        "DYN101": Cost("Model.forward", "Model.forward", True),
        "DYN401": Cost("Model.forward", "Model.forward", False),
    }


@pytest.mark.parametrize("model", [SEQUENCE, LISTED])
def test_layers_in_a_sequence_and_in_a_comprehension_are_in_a_loop(model: str, tmp_path: Path) -> None:
    assert costs(HEAD + model, tmp_path) == {
        "DYN101": Cost("Model.forward", "", True),
        "DYN401": Cost("Model.forward", "", False),
    }


def test_a_layer_called_once_costs_nothing_more(tmp_path: Path) -> None:
    assert costs(HEAD + ALONE, tmp_path) == {"DYN101": Cost(reads=True), "DYN401": NO_COST}


def test_a_loop_that_calls_the_model_from_outside_does_not_count(tmp_path: Path) -> None:
    outside = """

def main(batches):
    model = Model()
    for batch in batches:
        model(batch)
"""
    assert costs(HEAD + ALONE + outside, tmp_path)["DYN401"] == NO_COST


FUNCTION = """
import torch


@torch.compile
def f(x, n: int):
    {}
    return x
"""


@pytest.mark.parametrize(
    ("body", "cost"),
    [
        ("for _ in range(n):\n        print('pass')\n        x = x + 1", Cost("f", "f")),
        ("for _ in range(n):\n        print('pass')\n        return x", Cost("f", "")),
        ("x = x[: x.sum().long()]", Cost("", "f", True)),
        ("y = [v.item() for v in x]", Cost("f", "", True)),
        ("for y in [x.sum().item()]:\n        x = x + y", Cost(reads=True)),
        ("for y in x.tolist():\n        x = x + y", Cost(reads=True)),
    ],
)
def test_loops_in_the_function_itself(body: str, cost: Cost, tmp_path: Path) -> None:
    found = costs(FUNCTION.format(body), tmp_path)
    assert next(iter(found.values())) == cost


def test_what_stands_behind_a_proviso_gives_nothing_up(tmp_path: Path) -> None:
    body = "for _ in range(n):\n        print('one')\n        print('two')"
    file = tmp_path / "model.py"
    file.write_text(FUNCTION.format(body), encoding="utf-8")
    first, second = dynalint.check([file], static=True, settings=SETTINGS)
    assert (first.category, first.cost) == ("graph-break", Cost("f", "f"))
    assert (second.category, second.cost) == ("advice", Cost("f"))


@pytest.mark.dynamo
@pytest.mark.usefixtures("torch_is_no_burden")
@pytest.mark.parametrize(("model", "lost"), [(LOOP, True), (ALONE, False)])
def test_dynamo_gives_up_the_same_functions(model: str, lost: bool, tmp_path: Path) -> None:
    import torch

    (found,) = {one.gives_up for one in costs(HEAD + model, tmp_path).values()}
    assert bool(found) == lost
    space: dict[str, Any] = {}
    exec(HEAD + model, space)
    operators: list[str] = []

    def backend(graph: torch.fx.GraphModule, inputs: object) -> Callable[..., object]:
        operators.extend(str(node.target) for node in graph.graph.nodes)
        return graph.forward

    torch._dynamo.reset()
    torch.compile(space["Model"](), backend=backend)(torch.ones(3))
    assert any("add" in one for one in operators)
    assert any("mul" in one for one in operators) != lost  # `x * 2`, in the function itself
