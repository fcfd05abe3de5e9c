"""Functions and modules of other packages whose own code ends the graph."""

from __future__ import annotations

import textwrap

import dynalint

_MODEL = """\
import torch
import torchvision.transforms as transforms
from opt_einsum import contract
from torch import nn
from torchvision.ops import nms
from torchvision.transforms import v2


class Shifted(transforms.RandomCrop):
    def forward(self, x):
        return x + 1


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.jitter = transforms.ColorJitter(0.1)
        self.first, self.second = transforms.Normalize([0.5], [0.5]), v2.Normalize([0.5], [0.5])
        self.shifted = Shifted(4)
        self.resize = transforms.Resize(4)

    def forward(self, x: torch.Tensor, boxes: torch.Tensor):
"""


def _found(body: str) -> dict[int, tuple[str, ...]]:
    code = _MODEL + textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
    first = len(_MODEL.splitlines())
    return {one.line - first: one.gb for one in dynalint.check_source("m.py", code) if one.code == "DYN712"}


def test_what_ends_the_graph_is_flagged_with_its_break() -> None:
    body = """
    kept = nms(boxes, boxes[:, 0], 0.5)
    x = self.jitter(x)
    x = self.first(x)
    return contract("ij,jk->ik", x, x), kept
    """
    assert _found(body) == {1: ("GB0036",), 2: ("GB0124",), 3: ("GB0170",), 4: ("GB0156",)}


def test_what_is_traced_is_not() -> None:
    body = """
    x = self.second(self.resize(x))
    return self.shifted(x)
    """
    assert _found(body) == {}


def test_nothing_is_known_of_what_a_setting_lets_through() -> None:
    code = _MODEL + textwrap.indent("return nms(boxes, boxes[:, 0], 0.5), self.jitter(x)", " " * 8)
    switched = "\n\n\ntorch._dynamo.config.capture_{} = True\n"
    for setting, left in (("scalar_outputs", "GB0036"), ("dynamic_output_shape_ops", "GB0124")):
        found = dynalint.check_source("m.py", code + switched.format(setting))
        assert [one.gb for one in found if one.code == "DYN712"] == [(left,)]
