"""What a class's methods compare names with."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

_LISTS = (ast.Tuple, ast.List, ast.Set)


@cache
def compared_in(cls: type) -> dict[str, list[Any]]:
    """Return the literals and module constants that a class's methods compare names with."""
    found: dict[str, list[Any]] = {}
    constants = vars(sys.modules.get(cls.__module__, object))
    assigned = [node for node in _nodes_in(cls) if isinstance(node, ast.Assign) and isinstance(node.value, _LISTS)]
    listed = {name: node.value for node in assigned for target in node.targets if (name := _name(target)) is not None}
    for node in _nodes_in(cls):
        if isinstance(node, ast.Compare) and isinstance(node.left, (ast.Name, ast.Attribute)):
            name = node.left.id if isinstance(node.left, ast.Name) else node.left.attr
            for other in node.comparators:
                named = listed.get(_name(other) or "", other)
                items = named.elts if isinstance(named, _LISTS) else [named]
                values = [_value(item, constants) for item in items]
                known = found.setdefault(name, [])
                known += [value for value in values if value is not None and value not in known]
    return found


@cache
def bounds_in(cls: type) -> frozenset[str]:
    """Return the names that a class's methods compare with other names by order, as in `self.steps < self.warmup`."""
    found: set[str] = set()
    for node in _nodes_in(cls):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
            names = [_name(one) for one in (node.left, *node.comparators)]
            found |= set() if None in names else {name for name in names if name is not None}
    return frozenset(found)


def _value(node: ast.expr, constants: Mapping[str, Any]) -> Any:
    """Return the value of a literal or of a global name for a string or a number, or None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value
    value = constants.get(node.id) if isinstance(node, ast.Name) else None
    return value if isinstance(value, (str, int, float)) else None


def _name(node: ast.expr) -> str | None:
    """Return the name of a variable or an attribute of `self`."""
    if isinstance(node, ast.Attribute):
        return node.attr if isinstance(node.value, ast.Name) and node.value.id == "self" else None
    return node.id if isinstance(node, ast.Name) else None


def _nodes_in(cls: type) -> Iterator[ast.AST]:
    # Calling `inspect.getsource` with a class would parse the whole file.
    for function in vars(cls).values():
        if inspect.isfunction(function):
            yield from nodes_of(function)


def nodes_of(function: Callable[..., Any]) -> Iterator[ast.AST]:
    """Yield the AST nodes in a function's source, or nothing if the source is unavailable."""
    try:
        yield from ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function))))
    except (OSError, TypeError, SyntaxError):
        return
