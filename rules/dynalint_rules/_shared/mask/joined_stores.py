"""Rewrite stores through a mask, together with statements beside them that select with the same mask.

margin[target] = score[target]              margin = torch.where(target, score, -score)
margin[~target] = -score[~target]

picked = x[mask]                            out = torch.where(mask, x * 2, out)
out[mask] = picked * 2
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import suppress

from dynalint.rulekit import Call, Refusal, Rewrite, Subscript, rw, walk
from dynalint_rules._code.memory import is_own
from dynalint_rules._code.names import around, is_named, loads, within
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.selection import target_of
from dynalint_rules._shared.mask.creations import removed_creation
from dynalint_rules._shared.mask.masked_stores import StoreRewrite, picked_name


def stored(scope: Scope, event: Subscript | Call) -> Rewrite:
    """Return the rewrite of a statement that reads and stores elements through the same mask.

    Raises:
        Refusal: If the rewrite would not be equivalent.
    """
    target, statement = target_of(event), event.statement
    assert target is not None
    assert isinstance(statement, ast.Assign | ast.AugAssign)
    with suppress(Refusal):
        if (found := _both(scope, statement)) is not None:
            return found
    return StoreRewrite(scope, statement, target, statement).rewrite()


def stored_next(scope: Scope, event: Subscript) -> Rewrite | None:
    """Return the rewrite of elements that are read and then stored, as in `v = x[mask] + y; x[mask] = v`, or None.

    Raises:
        Refusal: If the rewrite would not be equivalent.
    """
    statement, mask = event.statement, event.node.slice
    before, after = around(scope.parents, statement)
    picked = _picked(scope, [statement, *after], mask)
    store = next(iter([statement, *after][max(len(picked), 1) :]), None)
    target = _target(store) if store is not None else None
    if not isinstance(statement, ast.Assign) or not isinstance(store, ast.Assign) or target is None:
        return None
    if ast.dump(target.slice) != ast.dump(mask):
        return None
    name, value = statement.targets[0], store.value
    if len(statement.targets) == 1 and isinstance(name, ast.Name) and list(loads(scope, name.id)) == [value]:
        return StoreRewrite(scope, statement, target, store).rewrite()
    picked = [*reversed(_picked(scope, before[::-1], mask)), *picked] if picked else []
    read = [node for one in picked for node in loads(scope, picked_name(scope, one, mask) or "")]
    if not picked or not all(within(node, value, scope) for node in read):
        return None
    return StoreRewrite(scope, store, target, store, picked=picked).rewrite()


def _picked(scope: Scope, statements: Sequence[ast.stmt], mask: ast.expr) -> list[ast.Assign]:
    """Return the first statements, as long as they only name elements that a mask selects from variables."""
    found: list[ast.Assign] = []
    for one in statements:
        if not isinstance(one, ast.Assign) or picked_name(scope, one, mask) is None:
            break
        found.append(one)
    return found


def _both(scope: Scope, statement: ast.Assign | ast.AugAssign) -> Rewrite | None:
    """Return the rewrite of two statements that store to the elements of a mask and to all others, or None.

    Raises:
        Refusal: If the rewrite would not be equivalent.
    """
    before, after = around(scope.parents, statement)
    for first, last in ((before[-1:], [statement]), ([statement], after[:1])):
        found = [(one, target) for one in (*first, *last) if (target := _target(one)) is not None]
        if len(found) < 2:
            continue
        found.sort(key=lambda one: _negated(one[1].slice) is not None)
        (_, one), (_, other) = found
        mask, name = _negated(other.slice), one.value
        if mask is None or ast.dump(mask) != ast.dump(one.slice) or ast.dump(name) != ast.dump(other.value):
            continue
        if isinstance(name, ast.Name) and is_own(scope, name.id, first[0]):
            stores = [StoreRewrite(scope, each, target, each) for each, target in found]
            if not any(_sees_store(name.id, store) for store in stores):
                return _joined(scope, name.id, [*first, *last], stores)
    return None


def _sees_store(name: str, store: StoreRewrite) -> bool:
    """Return whether a store may depend on elements of its tensor that it does not replace itself."""
    own = {node for read in store.reads for node in walk(read)}
    read = [node for part in (store.value, store.mask) for node in walk(part) if is_named(node, name)]
    return any(node not in own or node in set(walk(store.mask)) for node in read)


def _joined(scope: Scope, name: str, run: Sequence[ast.stmt], stores: Sequence[StoreRewrite]) -> Rewrite:
    one, other = stores
    (text, mask), (rest, _) = one.values(), other.values()
    if one.added != other.added or any(store.row or store.given for store in stores):
        raise Refusal("the values of the other elements are not known")
    line = f"{name} = {scope.torch}.where({mask}, {text}, {rest})"
    edits = rw.written(scope.file, *removed_creation(scope, name, run), (run, [line]))
    return one.offered(edits, [*one.conditions(name), *other.conditions(name)])


def _target(one: ast.stmt) -> ast.Subscript | None:
    """Return the `x[index]` that a statement assigns, or None."""
    target = one.targets[0] if isinstance(one, ast.Assign) and len(one.targets) == 1 else None
    return target if isinstance(target, ast.Subscript) else None


def _negated(mask: ast.expr) -> ast.expr | None:
    """Return the mask that `~mask` negates, or None."""
    return mask.operand if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert) else None
