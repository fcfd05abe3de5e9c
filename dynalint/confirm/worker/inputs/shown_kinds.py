"""Describe the arguments of a call, so that the analysis knows what parameters without annotations hold."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..dynamo.records import ShownArgument
from ..dynamo.runs import Call

_PLAIN = (bool, int, float, str, list, tuple)


def shown_kinds(function: Callable[..., Any], call: Call, *, guessed: bool) -> dict[str, ShownArgument]:
    """Return a description of each argument that is a tensor, a number, a string or a sequence, by parameter."""
    target = function.forward if isinstance(function, nn.Module) else function
    try:
        arguments = inspect.signature(target).bind(*call[0], **call[1]).arguments
    except (TypeError, ValueError):
        return {}
    found = {name: _shown(value, guessed=guessed) for name, value in arguments.items()}
    return {name: kind for name, kind in found.items() if kind is not None}


def _shown(value: object, *, guessed: bool) -> ShownArgument | None:
    if isinstance(value, torch.Tensor):
        return ShownArgument("tensor", _dtype_class(value.dtype), None if guessed else value.dim(), guessed)
    return ShownArgument(type(value).__name__, guessed=guessed) if type(value) in _PLAIN else None


def _dtype_class(dtype: torch.dtype) -> str:
    if dtype is torch.bool:
        return "bool"
    return "float" if dtype.is_floating_point else "complex" if dtype.is_complex else "int"
