"""Find functions that raise for some ordinary arguments, or whose value or gradient is not finite there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

_POINTS = (0.5, 0.0, -0.5, 1.0, -1.0, 2.0, -2.0, 100.0, -100.0)
_FEW_POINTS = (0.5, 0.0, -2.0)
_SHAPE = (3, 3)


def is_partial(function: Callable[..., Any]) -> bool:
    """Return whether a function of one to three float tensors has a value or gradient that is not finite somewhere.

    A function like this must not run in the branch of a `torch.where` that is not selected, because an infinite
    gradient times zero is NaN. If no call with one or two tensors succeeds, return False.
    """
    for arguments in _arguments(function):
        outcomes = list(itertools.islice((_is_finite(function, point) for point in arguments), len(_POINTS) ** 2))
        if any(outcome is not None for outcome in outcomes):
            return not all(outcomes)
    return False


def _arguments(function: Callable[..., Any]) -> Iterator[Iterator[tuple[Any, ...]]]:
    yield ((_full(point),) for point in _POINTS)
    yield ((_full(one), _full(other)) for one, other in itertools.product(_POINTS, repeat=2))
    yield (tuple(map(_full, points)) for points in itertools.product(_FEW_POINTS, repeat=3))
    yield ((_full(one), other) for one, other in itertools.product(_POINTS, (0.5, -1.0, 2.0)))


def _full(value: float) -> torch.Tensor:
    return torch.full(_SHAPE, value, requires_grad=True)


def _is_finite(function: Callable[..., Any], arguments: Sequence[Any]) -> bool | None:
    """Return whether the value and gradients are finite at one point, or None if the call raises."""
    leaves = [one for one in arguments if isinstance(one, torch.Tensor)]
    try:
        result = function(*(one.clone() if isinstance(one, torch.Tensor) else one for one in arguments))
        outputs = [
            one for one in (result if isinstance(result, (tuple, list)) else (result,)) if one.is_floating_point()
        ]
        finite = all(bool(one.isfinite().all()) for one in outputs)
        outputs = [one for one in outputs if one.requires_grad]
        if outputs:
            total = torch.stack([one.sum() for one in outputs]).sum()
            gradients = torch.autograd.grad(total, leaves, allow_unused=True)
            finite = finite and all(bool(one.isfinite().all()) for one in gradients if one is not None)
    except Exception:  # noqa: BLE001
        return None
    return finite
