"""What the code takes from its keywords where it finds it there, and works out, breaking the graph, where it does not.

    def positions_of(ids, kwargs):
        if (positions := kwargs.pop("positions", None)) is not None:
            return positions
        ...  # breaks

A model that hands its keywords on to such a function may be handed `positions`. Where an argument `ids` of the function
came to the model as `left_ids`, the keyword may have to be called `left_positions`.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch
from torch import nn

from ..dynamo.runs import Call, call_once

_MAPPINGS = ("pop", "get")


@dataclass(frozen=True)
class Keywords:
    """What one function works out for one part of the model: `prefix` is what the names have before them there."""

    code: CodeType
    prefix: str
    names: tuple[str, ...]


def keywords_worked_out(function: Callable[..., Any], call: Call) -> dict[Keywords, tuple[Any, ...]]:
    """Run a call, and return what its functions worked out that they would have taken from their keywords."""
    root = inspect.unwrap(function.forward if isinstance(function, nn.Module) else function)
    root_code = getattr(root, "__code__", None)
    own: dict[int, str] = {}
    working: set[FrameType] = set()
    found: dict[Keywords, tuple[Any, ...]] = {}

    def watch(frame: FrameType, event: str, result: Any) -> None:
        code = frame.f_code
        if event == "call":
            if code is root_code:
                own.update({id(value): name for name, value in _tensors(frame)})
            names = _taken(code)
            if names and not _given(frame).issuperset(names):
                working.add(frame)
        elif event == "return" and frame in working:
            working.remove(frame)
            names = _taken(code)
            values = result if len(names) > 1 else (result,)
            if isinstance(values, tuple) and len(values) == len(names) and all(one is not None for one in values):
                found.setdefault(Keywords(code, _prefix(frame, own), names), values)

    if not any(one.kind is one.VAR_KEYWORD for one in inspect.signature(root).parameters.values()):
        return {}
    with torch.enable_grad():
        sys.setprofile(watch)
        try:
            call_once(function, call)
        finally:
            sys.setprofile(None)
    return found


def _tensors(frame: FrameType) -> list[tuple[str, torch.Tensor]]:
    count = frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount
    named = ((name, frame.f_locals.get(name)) for name in frame.f_code.co_varnames[:count])
    return [(name, value) for name, value in named if isinstance(value, torch.Tensor)]


def _given(frame: FrameType) -> set[str]:
    """Return the keywords that the mappings hold which a function is given."""
    mappings = [value for value in list(frame.f_locals.values()) if isinstance(value, Mapping)]
    return {name for mapping in mappings for name, value in mapping.items() if value is not None}


def _prefix(frame: FrameType | None, own: Mapping[int, str]) -> str:
    """Return what the model's names of its arguments have before those that a function or its callers have for them."""
    while frame is not None:
        for name, value in _tensors(frame):
            outer = own.get(id(value), name)
            if outer != name and outer.endswith(f"_{name}"):
                return outer.removesuffix(name)
        frame = frame.f_back
    return ""


@functools.cache
def _taken(code: CodeType) -> tuple[str, ...]:
    """Return the names of what a function returns as it is where it finds all of it in a mapping."""
    if not {*_MAPPINGS} & {*code.co_names}:
        return ()
    try:
        tree = ast.parse(textwrap.dedent("".join(inspect.getsourcelines(code)[0])))
    except (OSError, SyntaxError):
        return ()
    keys: dict[str, str] = {}
    for node in ast.walk(tree):
        target: ast.expr | None = node.target if isinstance(node, ast.NamedExpr) else None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        if isinstance(target, ast.Name) and isinstance(node, ast.Assign | ast.NamedExpr):
            key = _key(node.value)
            keys.update({target.id: key} if key is not None else {})
    for node in ast.walk(tree):
        last = node.body[-1] if isinstance(node, ast.If) else None
        if isinstance(last, ast.Return) and last.value is not None:
            parts = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
            names = [keys[one.id] for one in parts if isinstance(one, ast.Name) and one.id in keys]
            if len(names) == len(parts):
                return tuple(names)
    return ()


def _key(node: ast.expr) -> str | None:
    """Return the key that `mapping.pop("key", ...)` or `mapping.get("key")` asks for."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _MAPPINGS:
        return None
    key = node.args[0] if node.args else None
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None
