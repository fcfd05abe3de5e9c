"""Rewrite stores through a mask, together with statements beside them that select with the same mask.

picked = x[mask]                            out = torch.where(mask, x * 2, out)
out[mask] = picked * 2
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dynalint.rulekit import Call, Refusal, Rewrite, Subscript, rw
from dynalint_rules._code.memory import is_own
from dynalint_rules._code.names import around, is_settled, loads, only_value, within
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.selection import target_of
from dynalint_rules._code.sharing import may_change_in_place
from dynalint_rules._shared.mask.masked_stores import StoreRewrite, creation, picked_name


def stored(scope: Scope, event: Subscript | Call) -> Rewrite:
    """Return the rewrite of a statement that reads and stores elements through the same mask."""
    target, statement = target_of(event), event.statement
    assert target is not None
    assert isinstance(statement, ast.Assign | ast.AugAssign)
    return _both_sides(scope, statement) or StoreRewrite(scope, statement, target, statement).rewrite()


def _both_sides(scope: Scope, statement: ast.stmt) -> Rewrite | None:
    """Return the rewrite of `out[mask] = ...` and `out[~mask] = ...`, one of which is the statement, or None.

    Together, they store all elements, so the tensor need not be created before.
    """
    before, after = around(scope.parents, statement)
    pairs = (_opposite(scope, [*before[-1:], statement]), _opposite(scope, [statement, *after[:1]]))
    pair = next((one for one in pairs if one is not None), None)
    if pair is None:
        return None
    (one, first), (other, second) = pair
    name = ast.unparse(first.value)
    made = creation(scope, name, [one, other])
    sides = [StoreRewrite(scope, one, first, one), StoreRewrite(scope, other, second, other)]
    if made is None or not is_own(scope, name, one):
        return None
    try:
        (value, mask), (value_beside, mask_beside) = (side.values() for side in sides)
    except Refusal:
        return None
    if any(side.given for side in sides) or sides[0].added != sides[1].added:
        return None
    chosen = f"{mask}, {value}, {value_beside}"
    if isinstance(_mask(scope, first), ast.UnaryOp):
        chosen = f"{mask_beside}, {value_beside}, {value}"
    conditions = dict.fromkeys(condition for side in sides for condition in side.conditions(name))
    edits = rw.written(scope.file, (made, []), ([one, other], [f"{name} = {scope.torch}.where({chosen})"]))
    title = "Compute both values for all elements and select with `torch.where`"
    ranks = not all(side.ranks_known() for side in sides)
    return Rewrite(title, "conditional", edits, tuple(conditions), scope.imports, ranks=ranks)


def _opposite(
    scope: Scope, statements: Sequence[ast.stmt]
) -> tuple[tuple[ast.Assign, ast.Subscript], tuple[ast.Assign, ast.Subscript]] | None:
    """Return two statements with their targets if one stores to what a mask selects, and the other to the rest."""
    stores = [(one, target) for one in statements if isinstance(one, ast.Assign) and (target := _target(one))]
    if len(stores) != 2 or not isinstance(stores[0][1].value, ast.Name):
        return None
    masks = [_mask(scope, target) for _, target in stores]
    inverted = any(
        isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert) and ast.dump(mask.operand) == ast.dump(plain)
        for plain, mask in (masks, masks[::-1])
    )
    same = ast.dump(stores[0][1].value) == ast.dump(stores[1][1].value)
    return (stores[0], stores[1]) if inverted and same else None


def _mask(scope: Scope, target: ast.Subscript) -> ast.expr:
    """Return the index of a store, or `~mask` if the index is a name for that."""
    value = only_value(scope, target.slice.id, target) if isinstance(target.slice, ast.Name) else None
    if not isinstance(value, ast.UnaryOp) or not isinstance(value.operand, ast.Name):
        return target.slice
    name = value.operand.id
    settled = is_settled(scope, name, value) and not may_change_in_place(scope, name)
    return value if settled and not may_change_in_place(scope, ast.unparse(target.slice)) else target.slice


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
