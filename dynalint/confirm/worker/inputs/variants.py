"""Vary a call that works with other batch sizes, ranks and options."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ..dynamo.runs import Call
from .guessed_values import BATCH, LENGTH
from .search import parameters_of

_MORE_ROWS = 3
# A program's own call with a single row may be a large one.
_MORE_ROWS_THAN_ONE = 1
_SIDE = 4
_TENSOR_NAMES = re.compile(r"mask|padding|bias|context|cond|target|label|memory|encoder_hidden|residual|weights?$")


def other_batch(call: Call) -> Call | None:
    """Return the call with more rows in every tensor that has the batch size, or None if no tensor has a batch.

    The batch is the first dimension of the first tensor, unless another of its dimensions has the batch size of guessed
    inputs.
    """
    tensors = [leaf for leaf in pytree.tree_leaves(call) if isinstance(leaf, torch.Tensor) and leaf.dim() > 0]
    if not tensors:
        return None
    rows = BATCH if BATCH in tensors[0].shape else tensors[0].shape[0]

    def widen(tensor: torch.Tensor) -> torch.Tensor:
        if rows not in tensor.shape:
            return tensor
        at = list(tensor.shape).index(rows)
        more = _MORE_ROWS if rows > 1 else _MORE_ROWS_THAN_ONE
        order = torch.arange(rows + more, device=tensor.device) % rows
        return tensor.detach().index_select(at, order).requires_grad_(tensor.requires_grad)

    return cast("Call", pytree.tree_map_only(torch.Tensor, widen, call)) if rows > 0 else None


def other_ranks(call: Call) -> Iterator[list[Call]]:
    """Yield alternatives with one more dimension in tensors that have the rank of the first, then with one fewer.

    A guessed rank is only one possibility, and another rank may reach different code.
    """
    tensors = [leaf for leaf in pytree.tree_leaves(call) if isinstance(leaf, torch.Tensor) and leaf.dim() > 0]
    if not tensors:
        return
    rank = tensors[0].dim()

    def wider(at: int, size: int) -> Call:
        return reshaped(lambda tensor: torch.stack([tensor.detach()] * size, at))

    def narrower(at: int) -> Call:
        return reshaped(lambda tensor: tensor.detach().select(at, 0).clone())

    def reshaped(change: Callable[[torch.Tensor], torch.Tensor]) -> Call:
        def changed(tensor: torch.Tensor) -> torch.Tensor:
            return change(tensor).requires_grad_(tensor.requires_grad) if tensor.dim() == rank else tensor

        return cast("Call", pytree.tree_map_only(torch.Tensor, changed, call))

    yield [wider(rank, _SIDE), wider(1, LENGTH)]
    if rank > 1:
        yield [narrower(-1), narrower(1)]


def options(function: Callable[..., Any], call: Call) -> Iterator[Iterable[Call]]:
    """For each optional parameter that is False or may be a tensor, yield alternative calls that set it.

    The alternatives for each parameter are sorted, most likely first.
    """
    args, kwargs = call
    for parameter in _optional(function, call):
        if parameter.default is False:
            yield [(args, {**kwargs, parameter.name: True})]
        else:
            yield _with_tensor(call, parameter)


def all_options(function: Callable[..., Any], call: Call, works: Callable[[Call], bool]) -> Iterator[Call]:
    """Yield calls that set all optional tensors that work together, with different parameters set first.

    For example, a model computes a loss without padding only if it gets both labels and a mask.
    """
    tensors = [parameter for parameter in _optional(function, call) if parameter.default is None]
    for order in (tensors, tensors[::-1]) if len(tensors) > 1 else ():
        found = call
        for parameter in order:
            found = next(filter(works, _with_tensor(found, parameter)), found)
        yield found


def _optional(function: Callable[..., Any], call: Call) -> Iterator[inspect.Parameter]:
    """Yield the parameters that a call does not set, and that are False or may be tensors."""
    args, kwargs = call
    target = function.forward if isinstance(function, nn.Module) else function
    with_tensors = any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(call))
    for parameter in parameters_of(target)[len(args) :]:
        may_be_tensor = with_tensors and parameter.default is None and _takes_tensor(parameter)
        if parameter.name not in kwargs and (parameter.default is False or may_be_tensor):
            yield parameter


def _with_tensor(call: Call, parameter: inspect.Parameter) -> Iterator[Call]:
    """Yield calls with a tensor for an optional parameter: like the first tensor, or as its name suggests."""
    args, kwargs = call
    for value in _tensors_like(parameter.name, _first_tensor(call)):
        yield args, {**kwargs, parameter.name: value}


def _first_tensor(call: Call) -> torch.Tensor:
    return next(leaf for leaf in pytree.tree_leaves(call) if isinstance(leaf, torch.Tensor))


def _takes_tensor(parameter: inspect.Parameter) -> bool:
    if parameter.annotation is not parameter.empty:
        return "Tensor" in str(parameter.annotation)
    return _TENSOR_NAMES.search(parameter.name) is not None


def _tensors_like(name: str, first: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield tensors that fit the first tensor: masks for its positions, labels for its rows, or a copy."""
    rows, positions = tuple(first.shape[:1]), tuple(first.shape[: max(first.dim() - 1, 1)])
    if "mask" in name or "padding" in name:
        square = (*rows, 1, *first.shape[1:2], *first.shape[1:2])
        for shape in dict.fromkeys((positions, tuple(first.shape), rows, square)):
            yield (torch.arange(math.prod(shape), device=first.device).reshape(shape) % 3) > 0
    elif re.search(r"target|label", name):
        for shape in dict.fromkeys((rows, positions, tuple(first.shape))):
            yield torch.zeros(shape, dtype=torch.int64, device=first.device)
    if first.is_floating_point():
        yield first.detach().clone()


def rising(call: Call, number: int) -> list[Call]:
    """Return `number` calls with the same shapes and growing floats, to reveal state kept from earlier calls."""

    def scaled(factor: float, tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            # Integers are mostly indices, so other values may be out of bounds, and rarely reach another branch.
            return tensor
        return (tensor.detach() * factor).requires_grad_(tensor.requires_grad)

    return [pytree.tree_map_only(torch.Tensor, partial(scaled, 1 + step / 2), call) for step in range(number)]
