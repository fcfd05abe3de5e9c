"""Rewrite in-place changes of a branch's own tensors as assignments, so that the branch can become expressions.

if x.sum() > 0:             if x.sum() > 0:
    y = x * 2                   y = x * 2
    y.clamp_(0, 1)              y = y.clamp(0, 1)
"""

from __future__ import annotations

import ast

from dynalint.rulekit import Rewrite, rw, walk
from dynalint_rules._code.calls import calls_in_chain
from dynalint_rules._code.memory import is_own
from dynalint_rules._code.names import is_named
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.blocks import FIRST_STEP_LEAVES

_TITLE = "Assign the new value instead of changing the tensor in place"
_METHODS = "abs add addcdiv addcmul clamp clamp_max clamp_min div exp log mul neg relu sigmoid sqrt sub tanh"
_IN_PLACE = frozenset(f"{name}_" for name in _METHODS.split())


def rewrite_reassigned(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of the in-place changes in an `if`, or None if it has none of the function's own tensors."""
    changes: list[rw.Change] = []
    names: dict[str, None] = {}
    for one in (*statement.body, *statement.orelse):
        calls = calls_in_chain(one.value) if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) else []
        owner = _changed(scope, calls)
        if owner is None:
            continue
        value = owner
        for call in calls:
            assert isinstance(call.func, ast.Attribute)
            value += f".{call.func.attr.removesuffix('_')}{scope.text(call)[len(scope.text(call.func)) :]}"
        changes.append((one, [f"{owner} = {value}"]))
        names[owner] = None
    if not changes:
        return None
    conditions = tuple(f"the dtype of `{name}` stays the same" for name in names)
    edits = rw.written(scope.file, *changes)
    return Rewrite(_TITLE, "conditional", edits, conditions, leaves=FIRST_STEP_LEAVES)


def _changed(scope: Scope, calls: list[ast.Call]) -> str | None:
    """Return the name of the tensor that a chain of in-place methods changes, if only this name refers to it."""
    methods = [call.func for call in calls if isinstance(call.func, ast.Attribute)]
    owner = methods[0].value if methods else None
    if not isinstance(owner, ast.Name) or scope.tensor(owner) is None or owner.id not in scope.function.locals:
        return None
    if not all(method.attr in _IN_PLACE for method in methods):
        return None
    given = [part for call in calls[1:] for part in (*call.args, *(one.value for one in call.keywords))]
    if any(is_named(node, owner.id) for part in given for node in walk(part)):
        return None  # each method of the chain would read the tensor as it was
    return owner.id if is_own(scope, owner.id, owner) else None
