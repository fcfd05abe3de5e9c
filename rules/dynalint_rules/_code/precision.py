"""The precision that a number requires, and a tensor's precision, as far as the code shows them."""

from __future__ import annotations

import ast
import math

from dynalint.rulekit import k, walk


def is_double(node: ast.expr) -> bool:
    """Return whether the code shows that a value comes from a float64 tensor."""
    return any(isinstance(one, ast.Attribute) and one.attr in ("double", "float64") for one in walk(node))


def is_wide(node: ast.expr) -> bool:
    """Return whether a value has dtype int64 if it is an integer, as sums and positions do."""
    source = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        source = node.args[0]
    called = source.func if isinstance(source, ast.Call) and not source.keywords else None
    return isinstance(called, ast.Attribute) and called.attr in ("sum", "argmax", "argmin", "count_nonzero", "long")


def is_small(kind: k.Kind) -> bool:
    """Return whether a number is known and every integer dtype can represent it."""
    return isinstance(kind, k.Value) and isinstance(kind.constant, int) and 0 <= kind.constant < 128


def is_short(kind: k.Kind) -> bool:
    """Return whether a number is known and every floating-point dtype can represent it exactly."""
    if not isinstance(kind, k.Value) or not isinstance(kind.constant, int | float):
        return False
    digits, exponent = math.frexp(kind.constant)
    return (digits * 256).is_integer() and -12 < exponent < 16


def is_nonzero(kind: k.Kind) -> bool:
    """Return whether a number is known and is not zero."""
    return isinstance(kind, k.Value) and kind.constant is not k.MISSING and bool(kind.constant)
