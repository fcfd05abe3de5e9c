"""The configs that a model is built with: which class, which part of it, and how small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
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
