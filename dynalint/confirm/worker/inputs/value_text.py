"""Short expressions for values in reports."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .guessed_values import GuessedConfig
from .small_configs import is_configuration
from .tensor_shapes import TensorSpec


def first_line(text: str) -> str:
    """Return the first line that is not blank, shortened to 200 characters."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= 200 else f"{line[:197]}..."


def worded(value: Any) -> str:
    """Return a short expression for a value."""
    if isinstance(value, torch.Tensor):
        kind = "float" if value.is_floating_point() else "bool" if value.dtype is torch.bool else "int"
        value = TensorSpec(tuple(value.shape), kind)
    if isinstance(value, TensorSpec):
        return f"{value.kind}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, (nn.Module, GuessedConfig)):
        return first_line(repr(value))
    text = getattr(value, "__name__", None) or repr(value)
    return f"{type(value).__name__}(...)" if is_configuration(type(value)) or " at 0x" in text else first_line(text)
