"""Describe the arguments of a call, so that the analysis knows what parameters without annotations hold."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from ..dynamo import runs
from ..dynamo.records import ShownArgument
from .targets import BuiltTarget
from .tensor_shapes import by_parameter_name

_PLAIN = (bool, int, float, str, list, tuple)


def shown_kinds(subject: BuiltTarget) -> dict[str, ShownArgument]:
    """Return a description of each argument that is a tensor, a number, a string or a sequence, by parameter.

    A guessed tensor is left out if the code also accepts a number or a list in its place, unless the name suggests a
    tensor.
    """
    function, (args, kwargs) = runs.fresh_callable(subject.make), subject.call
    target = function.forward if isinstance(function, nn.Module) else function
    try:
        bound = inspect.signature(target).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return {}
    found = {name: _shown(value, guessed=subject.guessed) for name, value in bound.arguments.items()}
    return {
        name: kind
        for name, kind in found.items()
        if kind is not None and not (kind.guessed and kind.type == "tensor" and _is_doubtful(function, bound, name))
    }


def _is_doubtful(function: Callable[..., Any], bound: inspect.BoundArguments, name: str) -> bool:
    """Return whether the argument for a parameter need not be a tensor."""
    if by_parameter_name(name) is not None:
        return False
    others: Mapping[str, Any] = bound.arguments
    plain = inspect.BoundArguments(bound.signature, {**others, name: others[name].tolist()})
    return runs.call_once(function, (plain.args, plain.kwargs)).error is None


def _shown(value: object, *, guessed: bool) -> ShownArgument | None:
    if isinstance(value, torch.Tensor):
        return ShownArgument("tensor", _dtype_class(value.dtype), None if guessed else value.dim(), guessed)
    return ShownArgument(type(value).__name__, guessed=guessed) if type(value) in _PLAIN else None


def _dtype_class(dtype: torch.dtype) -> str:
    if dtype is torch.bool:
        return "bool"
    return "float" if dtype.is_floating_point else "complex" if dtype.is_complex else "int"
