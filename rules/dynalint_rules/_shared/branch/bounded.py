"""Quotients by a value that a test compares with a bound, which need no test if the value is clamped to the bound.

if norm > self.most:                    x = x * (self.most / norm.clamp(min=self.most))
    x = x * (self.most / norm)
"""

from __future__ import annotations

import ast

from dynalint.rulekit import k
from dynalint_rules._code.names import lineage, stores, within
from dynalint_rules._code.scope import Scope, as_tensor


def bound_of(scope: Scope, node: ast.expr) -> str:
    """Return the text of a positive number that a variable exceeds wherever the code reads it here, or ""."""
    for one in lineage(scope, node) if isinstance(node, ast.Name) and node in scope.parents else ():
        if isinstance(one, ast.If | ast.IfExp):
            body = one.body if isinstance(one.body, list) else [one.body]
            bound = _bound(scope, one.test)
            if bound is not None and ast.dump(bound[0]) == ast.dump(node):
                holds = any(within(node, part, scope) for part in body) and _keeps_both(scope, one, bound)
                return scope.text(bound[1]) if holds else ""
    return ""


def scaled_to_bound(scope: Scope, test: ast.expr, value: ast.expr, other: ast.expr) -> str | None:
    """Return the condition under which a value is equal to another at the bound that a test compares with, or None.

    The value is the other one times the bound, divided by what the test compares.
    """
    bound = None if scope.careful else _bound(scope, test)
    tested = next((one for one in lineage(scope, test) if isinstance(one, ast.If | ast.IfExp)), None)
    if bound is None or tested is None or not isinstance(value, ast.BinOp) or not _keeps_both(scope, tested, bound):
        return None
    if isinstance(other, ast.Name) and _times_assigned(scope, other.id, tested) > 1:
        return None
    compared, least = map(ast.dump, bound)
    kept = ast.dump(other)
    left, right = value.left, value.right
    if isinstance(value.op, ast.Mult):
        pairs = [(left, right), (right, left)]
        found = any(ast.dump(one) == kept and _is_quotient(two, least, compared) for one, two in pairs)
        found = found or (ast.dump(right) == least and _is_quotient(left, kept, compared))
    else:
        factors = [left.left, left.right] if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mult) else []
        both = sorted(map(ast.dump, factors)) == sorted([kept, least])
        found = isinstance(value.op, ast.Div) and ast.dump(right) == compared and both
    return f"{scope.quote(bound[1])} is not zero" if found else None


def _keeps_both(scope: Scope, tested: ast.If | ast.IfExp, bound: tuple[ast.Name, ast.expr]) -> bool:
    """Return whether the branches give neither a variable nor its bound another value."""
    names = [one.id for one in bound if isinstance(one, ast.Name)]
    return all(_times_assigned(scope, name, tested) == 0 for name in names)


def _times_assigned(scope: Scope, name: str, tested: ast.If | ast.IfExp) -> int:
    return sum(within(store, tested, scope) for store in stores(scope, name))


def _bound(scope: Scope, test: ast.expr) -> tuple[ast.Name, ast.expr] | None:
    """Return the variable and the number if a test is whether a tensor without dimensions exceeds a positive number."""
    if not isinstance(test, ast.Compare) or len(test.ops) > 1:
        return None
    larger, smaller = test.left, test.comparators[0]
    if isinstance(test.ops[0], ast.Lt | ast.LtE):
        larger, smaller = smaller, larger
    elif not isinstance(test.ops[0], ast.Gt | ast.GtE):
        return None
    tensor = as_tensor(scope.kind(larger))
    kind = scope.kind(smaller)
    known = getattr(kind, "constant", None)
    positive = not isinstance(known, int | float) or known > 0
    plain = isinstance(smaller, ast.Constant | ast.Name | ast.Attribute) and k.is_number(kind) and positive
    return (larger, smaller) if isinstance(larger, ast.Name) and tensor is not None and plain else None


def _is_quotient(node: ast.expr, dividend: str, divisor: str) -> bool:
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
        return False
    return (ast.dump(node.left), ast.dump(node.right)) == (dividend, divisor)
