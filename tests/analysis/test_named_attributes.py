"""Attributes whose names the code puts together."""

from __future__ import annotations

import pytest

import dynalint

MODEL = """
import torch
from torch import nn

class Layer(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x

class Model(nn.Module):
    def __init__(self, count=2):
        super().__init__()
        for i in range(count):
            {store}

    def forward(self, x: torch.Tensor):
        return unknown(self, x) if x.dim() > 2 else {read}

def unknown(model, x):
    return x
"""
STORES = (
    'setattr(self, f"layer{i}", Layer())',
    'setattr(self, "layer%d" % i, Layer())',
    'self.add_module("layer{}".format(i), Layer())',
    'self.register_module("layer" + str(i), Layer())',
)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(
    "read", ["self.layer0(x)", 'getattr(self, f"layer{x.dim()}")(x)', 'getattr(self, "layer0")(x)']
)
def test_a_layer_is_found_by_its_name(store: str, read: str) -> None:
    model = MODEL.replace("{store}", store).replace("{read}", read)
    chains = [one.region for one in dynalint.check_source("m.py", model)]
    assert chains == [("Model.forward", "Layer.forward")]


@pytest.mark.parametrize(
    ("store", "read"),
    [
        ('setattr(self, f"layer{i}", nn.ReLU())', "self.layer0(x)"),
        ('setattr(self, f"layer{i}", Layer())', "self.norm0(x)"),
        ('setattr(self, f"{i}", Layer())', "self.norm0(x)"),
        ('setattr(x, f"layer{i}", Layer())', 'getattr(self, f"layer{i}")(x)'),
    ],
)
def test_a_name_that_does_not_fit_tells_nothing(store: str, read: str) -> None:
    model = MODEL.replace("{store}", store).replace("{read}", read)
    assert [one.region for one in dynalint.check_source("m.py", model)] == [("Layer.forward",)]


def test_attributes_are_read_by_a_pattern() -> None:
    model = MODEL.replace("{store}", "self.layer1 = Layer()").replace("{read}", 'getattr(self, "layer%d" % x.dim())(x)')
    assert [one.region for one in dynalint.check_source("m.py", model)] == [("Model.forward", "Layer.forward")]
