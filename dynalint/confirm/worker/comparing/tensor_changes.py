"""Changes to a single tensor, for use in trials and state changes: random, scaled, filled, single values replaced."""

from __future__ import annotations

from collections.abc import Callable

import torch

Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]

_NARROW = (torch.uint8, torch.int8, torch.int16)


def same(tensor: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    """Return the tensor unchanged."""
    return tensor


def normal(scale: float, shift: float = 0.0) -> Change:
    """Return a change that draws from a normal distribution."""

    def draw(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return torch.randn(tensor.shape, generator=generator, dtype=torch.float32) * scale + shift

    return draw


def apart(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return numbers with a random scale and shift for each tensor, so that tensors differ in sign and size."""
    scale = 10.0 ** (torch.rand((), generator=generator) * 4 - 2)
    shift = torch.randint(-1, 2, (), generator=generator) * scale * torch.randint(1, 5, (), generator=generator)
    return torch.randn(tensor.shape, generator=generator, dtype=torch.float32) * scale + shift


def filled(value: float) -> Change:
    """Return a change that sets all elements to `value`."""
    return lambda tensor, _: torch.full_like(tensor, value)


def scaled(factor: float) -> Change:
    """Return a change that multiplies by `factor`."""
    return lambda tensor, _: tensor * factor


def with_one(value: float) -> Change:
    """Return a change that replaces the middle element."""

    def put(tensor: torch.Tensor, _: torch.Generator) -> torch.Tensor:
        result = tensor.clone().flatten()
        result[result.numel() // 2 :][:1] = value
        return result.reshape(tensor.shape)

    return put


def largest(tensor: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    """Return the largest numbers of half precision, with the signs of the tensor."""
    return tensor.sign() * torch.finfo(torch.float16).max


def drawn(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return random integers in the example's range, extended to zero, so that ids stay valid."""
    if not tensor.numel():
        return tensor
    low, high = min(0, int(tensor.min())), int(tensor.max())
    return torch.randint(low, high + 1, tensor.shape, generator=generator)


def lowest(tensor: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    """Return the tensor filled with its smallest integer, so that ids stay valid."""
    return torch.full_like(tensor, int(tensor.min())) if tensor.numel() else tensor


def highest(tensor: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    """Return the tensor filled with its largest integer, or with that of its dtype if sums of it soon overflow."""
    if tensor.dtype in _NARROW:
        return torch.full_like(tensor, torch.iinfo(tensor.dtype).max)
    return torch.full_like(tensor, int(tensor.max())) if tensor.numel() else tensor


def coin(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return independent random bools."""
    return torch.randint(0, 2, tensor.shape, generator=generator).bool()


def mask(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return bools that are random, all true, or all false."""
    share = torch.randint(3, (), generator=generator) / 2
    return torch.rand(tensor.shape, generator=generator) < share


def positive(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return positive numbers."""
    return torch.randn(tensor.shape, generator=generator, dtype=torch.float32).abs() + 0.1


def unit(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return numbers between 0 and 1."""
    return torch.rand(tensor.shape, generator=generator, dtype=torch.float32)


def negative(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return negative numbers."""
    return -positive(tensor, generator)
