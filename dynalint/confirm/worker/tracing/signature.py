"""Signatures that distinguish kinds of calls, and reasons why a call cannot be confirmed.

Sizes and numbers count as zero, one or more, because code and Dynamo only treat 0 and 1 specially. The same call has
the same signature in every process.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.utils import _pytree as pytree

Signature = tuple[Any, ...]

_PLAIN = (bool, str, bytes, type(None), torch.dtype, torch.device, enum.Enum)
_DEEPEST = 4
_LONGEST = 16
_MOST_MODULES = 512
_OWN_TO_MODULES = frozenset(vars(nn.Module()))
_LONGEST_TEXT = 100


class DeclinedError(Exception):
    """The call cannot be confirmed in a fork. The message explains why."""


def of_call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Signature:
    """Return the signature of arguments. Raises DeclinedError if there is a tensor that a fork cannot use."""
    return _of(args, 0), _of(kwargs, 0)


def of_module(module: nn.Module) -> Signature:
    """Return a module's signature: the classes of its submodules and their plain attribute values."""
    parts: list[Any] = []
    for name, part in module.named_modules():
        if len(parts) > _MOST_MODULES:
            break
        values = {
            attribute: value
            for attribute, value in vars(part).items()
            if attribute not in _OWN_TO_MODULES and isinstance(value, (*_PLAIN, int, float, tuple, list))
        }
        parts.append((name, _name(type(part)), part.training, _of(values, 1)))
    return tuple(parts)


def text_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return a description of arguments."""
    words = [*map(_word, args), *(f"{name}={_word(value)}" for name, value in kwargs.items())]
    text = ", ".join(words)
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}..."


def tensors_of(subject: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors that a call uses: parameters, buffers and arguments."""
    if isinstance(subject, nn.Module):
        # A model may store something else under these names.
        yield from nn.Module.parameters(subject)
        yield from nn.Module.buffers(subject)
    yield from (leaf for leaf in pytree.tree_leaves((args, dict(kwargs))) if isinstance(leaf, torch.Tensor))


def check(tensor: torch.Tensor) -> None:
    """Raise DeclinedError if `tensor` cannot be used in a forked process."""
    if tensor.device.type not in ("cpu", "meta"):
        raise DeclinedError(f"its tensors are on {tensor.device.type}, which a forked process cannot use")
    # Classes that handle operations themselves may wait for other processes, or belong to a transformation.
    own = type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    if own or is_functorch_wrapped_tensor(tensor):
        raise DeclinedError(f"its arguments are not plain tensors ({type(tensor).__name__})")


def _of(value: Any, depth: int) -> Any:
    if isinstance(value, torch.Tensor):
        check(value)
        return str(value.dtype), tuple(min(size, 2) for size in value.shape), value.requires_grad, str(value.layout)
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, (int, float, complex)):
        return type(value).__name__, repr(value) if value in (0, 1, -1) else "more"
    if depth >= _DEEPEST:
        return _name(type(value))
    if isinstance(value, (list, tuple, set, frozenset)):
        items = list(value)[:_LONGEST]
        return _name(type(value)), len(items), tuple(_of(item, depth + 1) for item in items)
    if isinstance(value, Mapping):
        pairs = list(value.items())[:_LONGEST]
        return _name(type(value)), tuple((_of(name, depth + 1), _of(item, depth + 1)) for name, item in pairs)
    return _name(value if isinstance(value, type) else type(value))


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _word(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (*_PLAIN, int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(_word, value[:_LONGEST]))})"
    return type(value).__name__
