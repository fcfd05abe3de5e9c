"""Values as they appear in a report about a difference."""

from __future__ import annotations

from typing import Any

import torch

from .observing import PLAIN


def short(value: Any) -> str:
    """Return a dtype, shape, device or layout as text."""
    return str(tuple(value)) if isinstance(value, torch.Size) else str(value)


def numbers(tensor: torch.Tensor) -> str:
    """Return the first few numbers of a tensor as text."""
    numbers = tensor.detach().to_dense().flatten()[:4].tolist()
    # `or 0.0` hides the sign of zero, which makes no difference.
    text = ", ".join(f"{number or 0.0:.6g}" if isinstance(number, float) else str(number) for number in numbers)
    return f"[{text}{', ...' if tensor.numel() > 4 else ''}]"


def worded(value: Any) -> str:
    """Return a short text that stands for a value."""
    if isinstance(value, torch.Tensor):
        return f"a tensor of {str(value.dtype).removeprefix('torch.')}"
    text = repr(value) if isinstance(value, PLAIN) else f"a {type(value).__qualname__}"
    return text if len(text) <= 80 else f"{text[:77]}..."
