"""Models that are too large to be run are made smaller, by their default arguments."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import nn

from dynalint.confirm.worker.inputs.constructors import constructions
from dynalint.confirm.worker.inputs.guessed_values import constructor_arguments
from dynalint.confirm.worker.inputs.large_models import TooLargeError, lift_limits, limited_parameters, small_defaults

pytestmark = pytest.mark.dynamo


class Large(nn.Module):
    def __init__(self, mode="sum", depths=(6, 10), embed_dim=16384, *, num_heads=8, hidden_size: int = 4096):
        super().__init__()
        self.depths, self.num_heads = depths, num_heads
        self.layer = nn.Linear(embed_dim, hidden_size)
        self.more = nn.Linear(embed_dim, hidden_size)


class Larger(Large):
    def __init__(self, kind="fine", **others):
        super().__init__(kind, **others)


class Hopeless(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8192, 4096, device="cpu") for _ in range(9))


class Fussy(Large):
    """Only the defaults of its own size fit together."""

    def __init__(self, embed_dim=6144):
        if embed_dim < 6144:
            raise ValueError("embed_dim must be 6144")
        super().__init__(embed_dim=embed_dim)


def built(cls: type) -> tuple[Any, str]:
    ways = constructions(cls)
    make, text = next(ways)
    while True:
        try:
            return make(), text
        except Exception as error:  # noqa: BLE001 - whatever the class raises is sent back
            try:
                make, text = ways.send(error)
            except StopIteration:
                return error, ""


class Outer(nn.Module):
    def __init__(self, inner: Large, other: Hopeless | None = None):
        super().__init__()
        self.layer = inner.layer


def test_a_large_argument_is_built_with_smaller_defaults() -> None:
    model, text = built(Outer)
    assert model.layer.in_features == 1024
    assert text.startswith("Outer(")
    with pytest.raises(TooLargeError):
        constructor_arguments(OfHopeless)


class OfHopeless(nn.Module):
    def __init__(self, inner: Hopeless):
        super().__init__()


@pytest.mark.parametrize("cls", [Large, Larger])
def test_a_large_model_is_built_with_smaller_defaults(cls: type) -> None:
    before = inspect.signature(Large)
    model, text = built(cls)
    assert (model.layer.in_features, model.layer.out_features, model.depths, model.num_heads) == (1024, 256, (2, 2), 8)
    assert text == f"{cls.__name__}() with smaller default arguments"
    assert inspect.signature(Large) == before


def test_a_model_that_accepts_nothing_smaller_is_built_as_it_is() -> None:
    model, text = built(Fussy)
    assert model.layer.in_features == 6144
    assert text == "Fussy()"


def test_a_model_that_stays_too_large_is_not_built() -> None:
    error, _ = built(Hopeless)
    assert isinstance(error, TooLargeError)
    assert str(error) == "its parameters take more than 512 MiB"


def test_parameters_that_are_shared_lazy_or_on_no_device_do_not_count() -> None:
    with limited_parameters(1 << 20):
        layer = nn.Linear(256, 512)
        for _ in range(3):
            nn.Linear(256, 512, device="meta").weight = layer.weight
        nn.LazyLinear(1 << 20)
        nn.Linear(1 << 12, 1 << 12, device="meta")
    with pytest.raises(TooLargeError), limited_parameters(1 << 19):
        nn.Linear(256, 513)


def test_a_lifted_limit_holds_for_nothing_that_follows() -> None:
    with limited_parameters(4):
        lift_limits()
        assert nn.Linear(2, 2).weight.shape == torch.Size((2, 2))


def test_defaults_come_back_after_an_error() -> None:
    before = inspect.signature(Large)
    with pytest.raises(TooLargeError), small_defaults([Large, Larger, int]), limited_parameters(1 << 10):
        Large()
    assert inspect.signature(Large) == before
