"""Rewrite stores through a mask, together with statements beside them that select with the same mask.

picked = x[mask]                            out = torch.where(mask, x * 2, out)
out[mask] = picked * 2
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dynalint.rulekit import Call, Rewrite, Subscript
from dynalint_rules._code.names import around, loads, within
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.selection import target_of
from dynalint_rules._shared.mask.masked_stores import StoreRewrite, picked_name


def stored(scope: Scope, event: Subscript | Call) -> Rewrite:
    """Return the rewrite of a statement that reads and stores elements through the same mask."""
    target, statement = target_of(event), event.statement
    assert target is not None
    assert isinstance(statement, ast.Assign | ast.AugAssign)
    return StoreRewrite(scope, statement, target, statement).rewrite()


def stored_next(scope: Scope, event: Subscript) -> Rewrite | None:
    """Return the rewrite of elements that are read and then stored, as in `v = x[mask] + y; x[mask] = v`, or None."""
    statement, mask = event.statement, event.node.slice
    before, after = around(scope.parents, statement)
    picked = _picked(scope, [statement, *after], mask)
    computed, store = _computed_and_stored(scope, [statement, *after][len(picked) :])
    target = _target(store) if store is not None else None
    if not isinstance(computed, ast.Assign) or store is None or target is None:
        return None
    if ast.dump(target.slice) != ast.dump(mask) or not (picked or computed is statement is not store):
        return None
    picked = [*reversed(_picked(scope, before[::-1], mask)), *picked] if picked else []
    read = [node for one in picked for node in loads(scope, picked_name(scope, one, mask) or "")]
    if not all(within(node, computed.value, scope) for node in read):
        return None
    return StoreRewrite(scope, computed, target, store, picked=picked).rewrite()


def _computed_and_stored(scope: Scope, statements: Sequence[ast.stmt]) -> tuple[ast.stmt | None, ast.stmt | None]:
    """Return the first statement and the one that stores its value: the next if it stores a name for it, or itself."""
    first, second = next(iter(statements), None), next(iter(statements[1:]), None)
    if isinstance(first, ast.Assign) and isinstance(second, ast.Assign) and len(first.targets) == 1:
        name = first.targets[0]
        if isinstance(name, ast.Name) and list(loads(scope, name.id)) == [second.value]:
            return first, second
    return first, first


def _picked(scope: Scope, statements: Sequence[ast.stmt], mask: ast.expr) -> list[ast.Assign]:
    """Return the first statements, as long as they only name elements that a mask selects from variables."""
    found: list[ast.Assign] = []
    for one in statements:
        if not isinstance(one, ast.Assign) or picked_name(scope, one, mask) is None:
            break
        found.append(one)
    return found


def _target(one: ast.stmt) -> ast.Subscript | None:
    """Return the `x[index]` that a statement assigns, or None."""
    target = one.targets[0] if isinstance(one, ast.Assign) and len(one.targets) == 1 else None
    return target if isinstance(target, ast.Subscript) else None
