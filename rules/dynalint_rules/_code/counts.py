"""Code that only uses the number of elements or rows of a tensor."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint.rulekit import k
from dynalint_rules._code.scope import Scope


@dataclass(frozen=True)
class Count:
    """An expression `node` that counts a tensor's rows or, if `elements` is true, its elements."""

    node: ast.expr
    elements: bool = False


def count_of(scope: Scope, tensor: ast.expr) -> Count | None:
    """Return the expression around `tensor` that counts it: `.numel()`, `.shape[0]`, `.size(0)` or `len(...)`."""
    parent = scope.parents.get(tensor)
    if isinstance(parent, ast.Call) and parent.args == [tensor] and not parent.keywords:
        return Count(parent) if scope.kind(parent.func) == k.External("builtins.len") else None
    if not isinstance(parent, ast.Attribute):
        return None
    outer = scope.parents.get(parent)
    if parent.attr == "shape" and isinstance(outer, ast.Subscript) and _is_zero(outer.slice):
        return Count(outer)
    if not isinstance(outer, ast.Call) or outer.func is not parent or outer.keywords:
        return None
    if parent.attr == "size" and len(outer.args) == 1 and _is_zero(outer.args[0]):
        return Count(outer)
    if parent.attr in ("numel", "nelement") and not outer.args:
        return Count(outer, elements=True)
    return None


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0 and type(node.value) is int
