"""Arguments with items that are guessed separately: dicts that code reads by string keys, such as `batch["image"]`.

In a call's specs, the items are named "batch['image']".
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import nn

from .own_code import nodes_of

_DEEPEST = 3


def items_read(function: Callable[..., Any], parameter: str) -> dict[str, str]:
    """Return the keys that a module or function reads from a parameter, keyed by the items' names in specs.

    This includes keys that its own methods and submodules read from it.
    """
    return {f"{parameter}[{key!r}]": key for key in _keys(function, parameter, _DEEPEST)}


def with_items(made: Mapping[str, Any]) -> dict[str, Any]:
    """Put items into dicts, and return a value for each parameter."""
    values: dict[str, Any] = {}
    for name, value in made.items():
        parameter, bracket, key = name.partition("[")
        if bracket:
            values.setdefault(parameter, {})[ast.literal_eval(key.removesuffix("]"))] = value
        else:
            values[name] = value
    return values


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
