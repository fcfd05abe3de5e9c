"""Watch the torch operations and layers of an attempt, so that an error says which arguments it is about.

A message such as `the size of tensor a (5) must match the size of tensor b (4)` names no argument. The operation that
raised it has operands, and each operand was computed from certain arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakIdKeyDictionary

from .tensor_shapes import wanted_by

_NO_SOURCE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Operand:
    """A tensor that the failed operation received: its shape, and the arguments that it was computed from."""

    shape: tuple[int, ...]
    sources: frozenset[str]


class OperationWatch(TorchFunctionMode):  # type: ignore[misc]  # torch does not annotate it
    """Records the operands of the last operation, and how many places in the code ran operations."""

    def __init__(self, made: Mapping[str, Any]) -> None:
        super().__init__()
        # Tensors are freed as usual, because code may need the memory.
        self._sources: Any = WeakIdKeyDictionary()
        self._places: set[tuple[Any, int]] = set()
        self.operands: tuple[Operand, ...] = ()
        for name, value in made.items():
            for tensor in _tensors(value):
                self._sources[tensor] = frozenset({name})

    @property
    def progress(self) -> int:
        """The number of places in the code that ran an operation."""
        return len(self._places)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operation, and record which arguments its results come from."""
        caller = sys._getframe(1)  # noqa: SLF001 - the frame is cheaper to get than a stack
        self._places.add((caller.f_code, caller.f_lineno))
        given = _tensors((args, kwargs))
        self.operands = tuple(Operand(tuple(one.shape), self._sources.get(one, _NO_SOURCE)) for one in given)
        result = func(*args, **(kwargs or {}))
        sources = _NO_SOURCE.union(*(one.sources for one in self.operands))
        if sources:
            for tensor in _tensors(result):
                self._sources[tensor] = sources | self._sources.get(tensor, _NO_SOURCE)
        return result


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))


@contextmanager
def watched_layers(function: Callable[..., Any], entered: list[tuple[nn.Module, Any]]) -> Iterator[None]:
    """Keep the running torch layers in `entered`, each with its first argument."""
    handles = []

    def enter(layer: nn.Module, args: Any) -> None:
        entered.append((layer, args[0] if args else None))

    def leave(_layer: nn.Module, _args: Any, _result: Any) -> None:
        entered.pop()

    if isinstance(function, nn.Module):
        for layer in function.modules():
            if wanted_by(layer):
                handles += [layer.register_forward_pre_hook(enter), layer.register_forward_hook(leave)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
