"""Attributes with computed names, as in `setattr(self, f"norm{i}", layer)` and `getattr(self, "norm%d" % i)`.

A computed name is represented by its pattern, such as `norm{}`. A value stored under a pattern can be read under any
matching name, and reading through a pattern returns all matching attributes.
"""

from __future__ import annotations

import ast
import re
from functools import cache

from dynalint.analysis import kinds as k
from dynalint.analysis.kinds import Kind

HOLE = "{}"
_PERCENT = re.compile(r"%[-+ #0-9.]*[a-zA-Z]")
_BRACES = re.compile(r"\{[^{}]*\}")


def name_of(node: ast.expr, kind: Kind) -> str | None:
    """Return the name that an expression evaluates to, its pattern, or None if nothing is known about it."""
    if isinstance(kind, k.Value) and isinstance(kind.constant, str):
        return kind.constant
    pattern = _pattern(node)
    return None if pattern.strip(HOLE) == "" else pattern


def _pattern(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_pattern(value) for value in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _pattern(node.left) + _pattern(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return _PERCENT.sub(HOLE, _pattern(node.left))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return _BRACES.sub(HOLE, _pattern(node.func.value))
    return HOLE


def filler(name: str, pattern: str) -> str | None:
    """Return the text that fills a pattern's only placeholder to give `name`, or None if `name` does not match."""
    first, *last = pattern.split(HOLE)
    if len(last) != 1 or len(name) <= len(first) + len(last[0]):
        return None
    matches = name.startswith(first) and name.endswith(last[0])
    return name[len(first) : len(name) - len(last[0])] if matches else None


@cache
def fits(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern that consists of more than placeholders."""
    if HOLE not in pattern or HOLE in name or pattern == HOLE:
        return False
    first, *pieces, last = pattern.split(HOLE)
    if not name.startswith(first):
        return False
    place = len(first)
    for piece in pieces:  # each at its first position, because the next placeholder matches whatever remains
        place = name.find(piece, place + 1) + len(piece)
        if place < len(piece):
            return False
    return name.endswith(last) and len(name) - len(last) > place
