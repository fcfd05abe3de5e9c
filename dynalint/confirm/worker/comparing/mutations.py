"""Changes of one tensor of a call at a time, of which the inputs that fuzzing looks for are made (see `fuzzing`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

# What becomes of a tensor, given another of the call, a number and what draws.
Way = Callable[[torch.Tensor, torch.Tensor, float, torch.Generator], torch.Tensor]


@dataclass(frozen=True)
class Mutation:
    """A change of the tensor at one place among those of a call: `way` is the number of one of those for its kind."""

    place: int
    way: int
    number: float
    seed: int

    def apply(self, tensors: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> None:
        """Change one of `tensors` in place; `given` are those of the example, whose integers tell what is valid."""
        tensor, old = tensors[self.place], given[self.place]
        if not tensor.numel() or tensor.is_complex():
            return
        generator = torch.Generator().manual_seed(self.seed)
        other = self._other(tensors, tensor, generator)
        ways = _OF_FLOATS if tensor.is_floating_point() else _OF_BOOLS if tensor.dtype is torch.bool else _OF_INTS
        with torch.no_grad():
            new = ways[self.way % len(ways)](tensor.detach(), other.detach(), self.number, generator)
            if ways is _OF_INTS:
                new = new.clamp(min(0, int(old.min())), int(old.max()))
            tensor.copy_(new.to(tensor.device))

    def _other(self, tensors: Sequence[torch.Tensor], tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Another tensor that has the shape, the same one where there is none."""
        others = [one for one in tensors if one is not tensor and one.shape == tensor.shape and not one.is_complex()]
        return others[_below(len(others), generator)] if others else tensor


def _below(size: int, generator: torch.Generator) -> int:
    return int(torch.randint(max(1, size), (), generator=generator))


def _factor(generator: torch.Generator) -> float:
    return (-1.0, 2.0, -2.0, 0.5, -0.5)[_below(5, generator)]


def _put(tensor: torch.Tensor, number: float, generator: torch.Generator) -> torch.Tensor:
    """The tensor with one element that is this number."""
    new = tensor.clone().flatten()
    new[_below(new.numel(), generator)] = number
    return new.reshape(tensor.shape)


def _put_widely(tensor: torch.Tensor, number: float, generator: torch.Generator) -> torch.Tensor:
    """The tensor with this number all along one of its dimensions."""
    new = tensor.clone()
    if new.dim():
        dim = _below(new.dim(), generator)
        new.select(dim, _below(new.shape[dim], generator)).fill_(number)
    return new


def _drawn(tensor: torch.Tensor, shift: float, generator: torch.Generator) -> torch.Tensor:
    scale = 10.0 ** (torch.rand((), generator=generator) * 4 - 2)
    shift = shift if math.isfinite(shift) else 0.0
    return torch.randn(tensor.shape, generator=generator, dtype=torch.float32) * scale + shift


_OF_TWO: tuple[Way, ...] = (
    lambda _, other, __, ___: other,
    lambda _, other, __, generator: other * _factor(generator),
    lambda tensor, other, __, generator: tensor + other * _factor(generator),
)
_OF_FLOATS: tuple[Way, ...] = (
    lambda tensor, _, number, __: tensor * number,
    lambda tensor, _, number, __: tensor + number,
    lambda tensor, _, number, __: torch.full_like(tensor, number),
    lambda tensor, _, number, generator: _put(tensor, number, generator),
    lambda tensor, _, number, generator: _put_widely(tensor, number, generator),
    lambda tensor, _, number, generator: _put(torch.zeros_like(tensor), number, generator),
    # Of which the mean is this number, or the sum.
    lambda tensor, _, number, __: tensor - tensor.mean() + number,
    lambda tensor, _, number, __: tensor + (number - tensor.sum()) / tensor.numel(),
    lambda tensor, _, number, __: tensor.abs() * number,
    lambda tensor, _, number, generator: _drawn(tensor, number, generator),
    lambda tensor, _, __, ___: tensor.round(),
    # Equal to another, or to what takes it away, or some such: what compares two tensors asks for that.
    *_OF_TWO,
    *_OF_TWO,
)
_OF_INTS: tuple[Way, ...] = (
    lambda tensor, _, number, __: torch.full_like(tensor, _whole(number)),
    lambda tensor, _, number, generator: _put(tensor, _whole(number), generator),
    lambda tensor, _, number, generator: _put_widely(tensor, _whole(number), generator),
    lambda tensor, _, number, __: tensor + _whole(number),
    lambda _, other, __, ___: other,
)
_OF_BOOLS: tuple[Way, ...] = (
    lambda tensor, _, __, ___: ~tensor,
    lambda tensor, _, number, __: torch.full_like(tensor, number > 0),
    lambda tensor, _, number, generator: _put(tensor, number > 0, generator),
    lambda tensor, _, number, generator: _put_widely(tensor, number > 0, generator),
    lambda tensor, _, __, generator: (
        torch.rand(tensor.shape, generator=generator) < torch.rand((), generator=generator)
    ),
    lambda _, other, __, ___: other,
)
WAYS = math.lcm(len(_OF_FLOATS), len(_OF_INTS), len(_OF_BOOLS))


def _whole(number: float) -> int:
    return int(number) if math.isfinite(number) else 0
