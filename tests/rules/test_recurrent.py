"""Recurrent layers that a class inherits from, that only a method tells, and that are only asked for."""

from __future__ import annotations

import textwrap

import dynalint

_HEAD = """\
from abc import ABC, abstractmethod
import torch
from torch import Tensor, nn
"""


def _found(code: str, head: str = _HEAD) -> dict[int, str]:
    text = head + textwrap.dedent(code)
    findings = dynalint.check_source("m.py", text)
    return {one.line - head.count("\n"): one.category for one in findings if one.code == "DYN601"}


def test_a_class_that_inherits_from_layers_in_two_ways() -> None:
    code = """
    class Base(ABC, nn.RNNBase):
        @abstractmethod
        def start(self, x: Tensor): ...

        def forward(self, x: Tensor, lengths: Tensor):
            if lengths.max() == 0:
                return self.start(x)
            return super().forward(self.scaled(x, self.batch_first))

    class Layer(Base, nn.LSTM):
        def start(self, x: Tensor):
            directions = 2 if self.bidirectional else 1
            return x.new_zeros(directions, self.hidden_size)
    """
    assert _found(code) == {8: "graph-break", 9: "graph-break", 13: "graph-break"}


def test_what_only_recurrent_layers_have() -> None:
    code = """
    class Model(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor):
            self.layer.flatten_parameters()
            return self.layer(x)
    """
    assert _found(code) == {8: "graph-break"}


def test_asking_for_a_recurrent_layer() -> None:
    code = """
    def run(module, x: Tensor):
        if isinstance(module, nn.RNNBase):
            return x
        return module(x)

    class Model(nn.Module):
        def __init__(self, layers):
            super().__init__()
            self.layers = layers

        def forward(self, x: Tensor):
            return [run(layer, x) for layer in self.layers]
    """
    assert _found(code) == {}


def test_what_a_condition_asks_for_is_asked_in_any_case() -> None:
    code = """
    class Layer(nn.GRU):
        def start(self, x: Tensor, ready: bool):
            return self.bidirectional and ready

        def forward(self, x: Tensor):
            return self.start(x, True)
    """
    assert _found(code)[4] == "graph-break"
