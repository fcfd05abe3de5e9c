"""Stores of a number in a slice whose bounds become tensors.

spec[:, low:low + width] = 0        position = torch.arange(spec.shape[1], device=spec.device)
                                    spec[:, (position >= low) & (position < low + width)] = 0
"""

from __future__ import annotations

import ast

from dynalint.rulekit import k, rw, walk
from dynalint_rules._code.scope import Scope

_PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.operator, ast.UnaryOp, ast.unaryop, ast.expr_context)


def filled(scope: Scope, subscript: ast.Subscript, part: ast.Slice) -> tuple[list[rw.Change], list[str]] | None:
    """Return the changes that store where a mask selects, and the conditions for it, or None for any other store.

    The mask compares the positions in one dimension with the bounds of the slice `part`.
    """
    statement, base = scope.parents[subscript], subscript.value
    if not isinstance(statement, ast.Assign) or statement.targets != [subscript] or part.step is not None:
        return None
    parts = subscript.slice.elts if isinstance(subscript.slice, ast.Tuple) else [subscript.slice]
    dimension = _dimension(parts, part)
    bounds = [one for one in (part.lower, part.upper) if one is not None]
    plain = all(isinstance(node, _PLAIN) for one in (base, *bounds) for node in walk(one))
    tensor = scope.tensor(base)
    if dimension is None or not plain or tensor is None or not k.is_number(scope.kind(statement.value)):
        return None
    if any(isinstance(node, ast.Call) for node in walk(statement.value)):
        return None
    shown, name = scope.text(base), scope.fresh_name("position")
    tests = [
        f"{name} {sign} {scope.text(one)}" for sign, one in ((">=", part.lower), ("<", part.upper)) if one is not None
    ]
    mask = tests[0] if len(tests) == 1 else " & ".join(f"({one})" for one in tests)
    lines = [
        f"{name} = {scope.torch}.arange({shown}.shape[{dimension}], device={shown}.device)",
        f"{rw.spliced(scope.file, subscript, {part: mask})} = {scope.text(statement.value)}",
    ]
    return [(statement, lines)], [f"{scope.quote(one)} is not negative" for one in bounds]


def _dimension(parts: list[ast.expr], part: ast.Slice) -> int | None:
    """Return the dimension that a slice is taken in if all other parts of the index take everything, or None."""
    at = parts.index(part)
    for one in parts:
        whole = isinstance(one, ast.Slice) and one.lower is one.upper is one.step is None
        if one is not part and not whole and not _is_ellipsis(one):
            return None
    if not any(map(_is_ellipsis, parts[:at])):
        return at
    return at - len(parts) if at == len(parts) - 1 else None


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...
