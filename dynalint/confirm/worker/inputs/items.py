"""Arguments with items that are guessed separately.

These are dicts that code reads by string keys, such as `batch["image"]`, and tuples of tensors. In a call's specs, the
items are named "batch['image']" and "state[0]".
"""

from __future__ import annotations

import ast
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import nn

from .own_code import nodes_of
from .tensor_shapes import KINDS

_DEEPEST = 3


def items_read(function: Callable[..., Any], parameter: str) -> dict[str, str]:
    """Return the keys that a module or function reads from a parameter, keyed by the items' names in specs.

    This includes keys that its own methods and submodules read from it.
    """
    return {f"{parameter}[{key!r}]": key for key in _keys(function, parameter, _DEEPEST)}


def elements_of(parameter: str, hint: Any) -> dict[str, tuple[str, Any]]:
    """Return the name and annotation of each element of a parameter that is annotated as a tuple of tensors.

    The keys are the elements' names in specs.
    """
    kinds = typing.get_args(hint) if typing.get_origin(hint) is tuple else ()
    if not kinds or not all(isinstance(kind, type) and kind in KINDS for kind in kinds):
        return {}
    return {f"{parameter}[{at}]": (parameter, kind) for at, kind in enumerate(kinds)}


def elements_unpacked(function: Callable[..., Any], parameter: str) -> dict[str, tuple[str, Any]]:
    """Return the same for a parameter that the code unpacks, as in `mean, variance = output`."""
    for node in nodes_of(function.forward if isinstance(function, nn.Module) else function):
        match node:
            case ast.Assign([ast.Tuple(elements)], ast.Name(name)) if name == parameter:
                names = [one.id for one in elements if isinstance(one, ast.Name)]
                if len(names) == len(elements):
                    return {f"{parameter}[{at}]": (name, Any) for at, name in enumerate(names)}
    return {}


def with_items(made: Mapping[str, Any]) -> dict[str, Any]:
    """Put items into dicts and tuples, and return a value for each parameter."""
    values: dict[str, Any] = {}
    tuples = set()
    for name, value in made.items():
        parameter, bracket, key = name.partition("[")
        if bracket:
            item = ast.literal_eval(key.removesuffix("]"))
            values.setdefault(parameter, {})[item] = value
            tuples |= {parameter} if isinstance(item, int) else set()
        else:
            values[name] = value
    return {name: tuple(value.values()) if name in tuples else value for name, value in values.items()}


def _keys(function: Callable[..., Any], parameter: str, depth: int) -> Iterator[str]:
    target = function.forward if isinstance(function, nn.Module) else function
    owner = getattr(target, "__self__", None)
    for node in nodes_of(target):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and _is_name(node.value, parameter):
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                yield node.slice.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_name(node.func.value, "self"):
            callee = getattr(owner, node.func.attr, None)
            received = _receiving(callee, node, parameter) if callable(callee) and depth else None
            if callee is not None and received is not None:
                yield from _keys(callee, received, depth - 1)


def _receiving(callee: Callable[..., Any], call: ast.Call, parameter: str) -> str | None:
    """Return the name of the parameter that a call passes a variable to, or None."""
    try:
        names = list(inspect.signature(callee.forward if isinstance(callee, nn.Module) else callee).parameters)
    except (TypeError, ValueError):
        return None
    passed = [*zip(names, call.args, strict=False), *((one.arg, one.value) for one in call.keywords)]
    return next((name for name, value in passed if name is not None and _is_name(value, parameter)), None)


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
