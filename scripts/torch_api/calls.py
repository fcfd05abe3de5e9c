"""Calls to torch with their arguments, the loader's hints for these, and copies with other data or shapes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

NUMBERS = (bool, int, float, complex)


@dataclass(frozen=True)
class Call:
    """The arguments of a call, starting with the receiver if it is a call to a method."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def hint_of(value: Any) -> str:
    """Return the hint that the loader gets for an argument."""
    if isinstance(value, torch.Tensor):
        return "tensor"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"str:{value}"
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)):
        return "sequence"
    return type(value).__name__ if type(value) in (*NUMBERS, torch.dtype, torch.device) else "other"


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested tuples, lists and dicts."""
    for item in leaves_of(value):
        if isinstance(item, torch.Tensor):
            yield item


def leaves_of(value: Any) -> Iterator[Any]:
    """Yield the leaves of nested tuples, lists and dicts."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves_of(item)
    elif isinstance(value, dict):
        yield from leaves_of(list(value.values()))
    else:
        yield value


def copied(value: Any) -> Any:
    """Return nested arguments with every tensor cloned, to protect the originals."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad) if value.layout is torch.strided else value
    if type(value) in (list, tuple):
        return type(value)(map(copied, value))
    return {name: copied(item) for name, item in value.items()} if type(value) is dict else value


def same(tensor: torch.Tensor, _: int) -> torch.Tensor:
    """Return the tensor unchanged."""
    return tensor


def with_other_data(tensor: torch.Tensor, index: int) -> torch.Tensor:
    """Return the tensor with every element changed, in a different way for each tensor in a call."""
    if tensor.dtype is torch.bool:
        return ~tensor if index == 0 else tensor
    return tensor.detach().mul(index + 3).add(index + 1).to(tensor.dtype)


def longer(tensor: torch.Tensor, _: int) -> torch.Tensor:
    """Return the tensor with the dimensions' sizes changed."""
    return torch.cat([tensor, tensor, tensor]) if tensor.ndim else tensor


def deeper(tensor: torch.Tensor, _: int) -> torch.Tensor:
    """Return the tensor with a different rank and different strides."""
    return tensor.repeat(2, *[1] * tensor.ndim)


def changed(call: Call, change: Callable[[torch.Tensor, int], torch.Tensor]) -> Call:
    """Return a call with `change` applied to each tensor and its index, or `call` itself if that fails."""
    index = -1

    def visit(value: Any) -> Any:
        nonlocal index
        if isinstance(value, torch.Tensor):
            index += 1
            return change(value, index)
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return type(value)(map(visit, value))
        return value

    try:
        return Call(tuple(map(visit, call.args)), {name: visit(value) for name, value in call.kwargs.items()})
    except Exception:  # noqa: BLE001  a tensor that cannot be changed so (sparse, quantized)
        return call


class fixed_randomness:  # noqa: N801  reads like a function where it is used
    """A context with fixed random seeds, which restores the default dtype and the gradient mode."""

    def __enter__(self) -> None:
        torch.default_generator.manual_seed(0)
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002

    def __exit__(self, *_: object) -> None:
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)
