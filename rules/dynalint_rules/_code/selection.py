"""Reads by a mask: `x[mask]`."""

from __future__ import annotations

import ast

from dynalint.rulekit import Subscript, is_mask, k


def reads_by_mask(event: Subscript) -> bool:
    """Return whether `event` selects elements of a tensor by a bool tensor."""
    taken_from = k.only_tensor(event.base) is not None or isinstance(event.base, k.Unknown)
    return event.context == "load" and taken_from and is_mask(event.index)


def target_of(event: Subscript) -> ast.Subscript | None:
    """Return the `x[mask]` to which the statement of a read stores through the same mask, or None."""
    statement = event.statement
    if isinstance(statement, ast.AugAssign):
        target: ast.expr = statement.target
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    else:
        return None
    same = isinstance(target, ast.Subscript) and ast.dump(target.slice) == ast.dump(event.node.slice)
    return target if same and isinstance(target, ast.Subscript) else None
