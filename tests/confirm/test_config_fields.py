"""Fields of settings that a model needs otherwise than they are by default: the error tells which, and what they may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
    """Settings with fields that nobody gave a value.

    Args:
        stride_list (`list[int]`, *optional*, defaults to `[3, 1]`):
            Strides.
    """

    vocab_size: int | None = None
    hidden_size: int = 256
    num_groups: int = 256
    span: int | None = None
    stride_list: list[int] | None = None
    languages: tuple[str, ...] = ("en", "de")
    default_language: str | None = None


class Words(nn.Module):
    def __init__(self, config: OpenConfig):
        super().__init__()
        self.config = config
        self.table = nn.Embedding(
            config.vocab_size,
            config.hidden_size,
        )

    def forward(self, input_ids):
        return self.table(input_ids)


class Spans(nn.Module):
    def __init__(self, config: OpenConfig):
        super().__init__()
        if config.span is None:
            raise ValueError("how far?")
        self.config = config

    def forward(self, x):
        return x * self.config.span


class Strides(nn.Module):
    def __init__(self, config: OpenConfig):
        super().__init__()
        self.config = config
        self.conv = nn.Conv1d(3, 3, 3, stride=config.stride_list[0])

    def forward(self, x):
        return self.conv(x)


class Grouped(nn.Module):
    def __init__(self, config: OpenConfig):
        super().__init__()
        self.config = config
        self.conv = nn.Conv1d(config.hidden_size, config.hidden_size, 3, groups=config.num_groups)

    def forward(self, x):
        return self.conv(x)


class Speaks(nn.Module):
    """What is missing shows when it is called."""

    def __init__(self, config: OpenConfig):
        super().__init__()
        self.config = config
        self.adapters = nn.ModuleDict({name: nn.Linear(4, 4) for name in config.languages})

    def forward(self, x):
        if self.config.default_language is None:
            raise ValueError("the language is unknown")
        return self.adapters[self.config.default_language](x)


@pytest.mark.parametrize(
    ("cls", "holds"),
    [
        (Words, lambda config: config.vocab_size > 1),
        (Spans, lambda config: config.span is not None),
        (Strides, lambda config: config.stride_list == [3, 1]),
        (Grouped, lambda config: config.hidden_size % config.num_groups == 0),
        (Speaks, lambda config: config.default_language == "en"),
    ],
)
def test_a_field_that_the_error_tells_of_gets_another_value(cls: type, holds: Callable[[Any], bool]) -> None:
    assert holds(settled(cls))


@dataclass
class OuterConfig:
    inner: OpenConfig = field(default_factory=OpenConfig)


class Nested(nn.Module):
    def __init__(self, config: OuterConfig):
        super().__init__()
        self.config = config
        self.words = Words(config.inner)

    def forward(self, input_ids):
        return self.words(input_ids)


def test_settings_inside_settings_get_it_too() -> None:
    assert settled(Nested).inner.vocab_size > 1


class Mistyped(nn.Module):
    def __init__(self, config: OuterConfig):
        super().__init__()
        self.config = config
        self.fc = nn.Linear(config.hidden_size, 4)

    def forward(self, x):
        return self.fc(x)


def test_settings_that_lack_what_is_read_are_replaced_by_a_part_of_them_that_has_it() -> None:
    assert isinstance(settled(Mistyped), OpenConfig)


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


class Never(nn.Module):
    def __init__(self, config: OpenConfig):
        super().__init__()
        raise ValueError(f"never with {config.vocab_size} and {config.span}")


def test_the_search_ends_where_no_field_mends_it() -> None:
    with pytest.raises(StopIteration):
        settled(Never)


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
