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


TENSORS = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, count=2):
        super().__init__()
        for i in range(count):
            {store}

    def forward(self, x: torch.Tensor):
        return x if {read} > 0 else -x
"""


@pytest.mark.parametrize(
    ("store", "found"),
    [
        ('self.register_buffer(f"scale{i}", torch.ones(1))', True),
        ('self.register_buffer("scale%d" % i, torch.ones(1), persistent=False)', True),
        ('self.register_parameter(f"scale{i}", nn.Parameter(torch.ones(1)))', True),
        ('self.register_parameter("scale0", nn.Parameter(torch.ones(1)))', True),
        ('self.register_parameter("scale0", None)', False),
        ('self.register_buffer(f"shift{i}", torch.ones(1))', False),
        ("self.register_buffer(str(i), torch.ones(1))", False),
    ],
)
@pytest.mark.parametrize("read", ["self.scale0", 'getattr(self, f"scale{0}")'])
def test_a_tensor_is_found_by_its_name(store: str, found: bool, read: str) -> None:
    model = TENSORS.replace("{store}", store).replace("{read}", read)
    assert bool(dynalint.check_source("m.py", model)) is found


LAYERS = """
import torch
from torch import nn, special

class Model(nn.Module):
    def __init__(self, kind{default}, size=3):
        super().__init__()
        self.inner = getattr({owner}, {name})({arguments})

    def forward(self, x: torch.Tensor):
        return self.inner(x)
"""


@pytest.mark.parametrize(
    ("default", "owner", "name", "arguments", "found"),
    [
        ('="LSTM"', "nn", "kind", "3, 3", True),
        ('="gru"', "nn", "kind.upper()", "3, size, batch_first=True", True),
        ("", "nn", "kind", "3, 3, num_layers=2", True),
        ('="ReLU"', "nn", "kind", "", False),
        ('="LSTM"', "special", "kind", "3", False),
        ("", "nn", "kind", "3, 3", False),
        ("=None", "nn", "kind", "3, 3", False),
        ('="Nothing"', "nn", "kind", "3, 3", False),
    ],
)
def test_a_layer_is_chosen_by_the_default(default: str, owner: str, name: str, arguments: str, found: bool) -> None:
    model = LAYERS.format(default=default, owner=owner, name=name, arguments=arguments)
    assert bool(dynalint.check_source("m.py", model)) is found


@pytest.mark.parametrize(("base", "found"), [("dict", False), ("OrderedDict", False), ("object", True)])
def test_what_one_dict_holds_says_nothing_about_others(base: str, found: bool) -> None:
    code = f"""
from collections import OrderedDict
import torch
from torch import nn


class Record({base}):
    def __init__(self, values=()):
        for name, value in dict(values).items():
            setattr(self, name, value)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.shares = Record()
        self.shares.width = (0, 1)

    def forward(self, x: torch.Tensor):
        return Record({{name: x[..., share] for name, share in self.kept.items()}}).width * torch.sigmoid(x)
"""
    assert bool(dynalint.check_source("m.py", code)) is found
