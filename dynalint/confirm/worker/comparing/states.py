"""Other states in which to compare two versions: changed parameters and buffers, other builds, other precisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from .other_builds import Build
from .tensor_changes import apart, filled, normal, same, scaled


@dataclass(frozen=True)
class StateVariation:
    """A change to all parameters and buffers, with a name and a function for each kind of tensor.

    `flags` inverts bool attributes. `build` changes a constructor argument. `dtype` casts floating-point tensors,
    including inputs. `autocast` makes calls run under `torch.autocast`. Counters of calls start at `count`.
    """

    name: str
    floats: Callable[[torch.Tensor, torch.Generator], torch.Tensor]
    ints: Callable[[torch.Tensor], torch.Tensor]
    bools: Callable[[torch.Tensor], torch.Tensor]
    seed: int = 0
    flags: bool = False
    build: Build | None = None
    dtype: torch.dtype | None = None
    autocast: bool = False
    count: int | None = None

    def of(self, tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Return the changed tensor, with the same dtype and device."""
        if tensor.is_floating_point() or tensor.is_complex():
            changed = self.floats(tensor, generator)
        else:
            changed = self.bools(tensor) if tensor.dtype is torch.bool else self.ints(tensor)
        return changed.to(tensor.device, tensor.dtype)


def built_otherwise(build: Build) -> StateVariation:
    """Return the state of a different build."""
    return StateVariation(build.words, same, _as_it_is, _as_it_is, build=build)


def counted_to(count: int) -> StateVariation:
    """Return the state in which counters have the value `count`."""
    return StateVariation(f"counts at {count}", same, _as_it_is, _as_it_is, count=count)


def _as_it_is(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _drawn_state(number: int, *, flags: bool) -> StateVariation:
    name = f"parameters with different scales ({number}{', flags inverted' if flags else ''})"
    return StateVariation(name, apart, _as_it_is, _as_it_is, seed=number, flags=flags)


# Integers in buffers are mostly indices and counts, so they are rarely worth changing, and then only upwards.
STATES: tuple[StateVariation, ...] = (
    StateVariation("flags inverted", same, _as_it_is, _as_it_is, flags=True),
    StateVariation("parameters negated", scaled(-1.0), _as_it_is, torch.logical_not),
    StateVariation("random parameters", normal(1.0), _as_it_is, torch.ones_like),
    StateVariation("parameters ten times larger", scaled(10.0), lambda tensor: tensor + 1000, _as_it_is),
    StateVariation("parameters all zero", filled(0.0), torch.zeros_like, torch.zeros_like),
)
ALWAYS = STATES[1:3]
HALF = StateVariation("all in half precision", same, _as_it_is, _as_it_is, dtype=torch.float16)
# Code does not have to support these. If the original raises, nothing is compared.
PRECISIONS = (
    StateVariation("all in bfloat16", same, _as_it_is, _as_it_is, dtype=torch.bfloat16),
    StateVariation("autocast to bfloat16", same, _as_it_is, _as_it_is, autocast=True),
    StateVariation("all in float64", same, _as_it_is, _as_it_is, dtype=torch.float64),
)
MORE_STATES = tuple(_drawn_state(number, flags=number % 2 == 0) for number in range(1, 9))
