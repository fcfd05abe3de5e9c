"""The configs that a model is built with: which class, which part of it, and how small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from dynalint.confirm.worker.inputs.constructors import constructions
from dynalint.confirm.worker.inputs.search import find_call

pytestmark = pytest.mark.dynamo


def settled(cls: type) -> Any:
    """Return the settings of the first instance that is built, and called, without an exception."""
    ways = constructions(cls)
    make, _ = next(ways)
    while True:
        try:
            made = make()
            find_call(made, "cpu", 10)
        except Exception as error:  # noqa: BLE001 - whatever the class raises is sent back
            make, _ = ways.send(error)
        else:
            return made.config


@dataclass
class OpenConfig:
    hidden_size: int = 256
    languages: tuple[str, ...] = ("en", "de")


class Unsaid(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.fc = nn.Linear(config.hidden_size, len(config.languages))

    def forward(self, x):
        return self.fc(x)


def test_settings_without_annotation_are_those_of_the_module_that_have_what_is_read() -> None:
    assert isinstance(settled(Unsaid), OpenConfig)


@dataclass
class HeadsConfig:
    hidden_size: int = 1152
    num_attention_heads: int = 16


class Heads(nn.Module):
    def __init__(self, config: HeadsConfig):
        super().__init__()
        self.config = config


def test_widths_that_heads_divide_come_first() -> None:
    make, _ = next(constructions(Heads))
    assert make().config.hidden_size % (4 * 16) == 0


class Layers(nn.Module):
    def __init__(self, decoder_layer, num_layers):
        super().__init__()
        self.layers = nn.ModuleList([decoder_layer] * num_layers)

    def forward(self, output: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            output = layer(output, memory, mask=None)
        return output


def test_a_layer_that_is_handed_in_takes_whatever_it_is_given() -> None:
    ways = constructions(Layers)
    make, _ = next(ways)
    with pytest.raises(TypeError) as raised:
        make()
    make, text = ways.send(raised.value)
    assert text == "Layers(decoder_layer=PassThrough(), num_layers=2)"
    find_call(make(), "cpu", 10)
