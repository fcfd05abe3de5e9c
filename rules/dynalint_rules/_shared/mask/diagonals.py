"""Rewrite a selection by a mask of the diagonal, which takes the same elements on every call.

negatives = sim[~eye].view(n, -1)       negatives = sim.flatten()[1:].view(n - 1, n + 1)[:, :-1].reshape(n, -1)
positives = sim[eye]                    positives = sim.diagonal()

Behind the first element of a square matrix, each element of the diagonal follows n others.
"""

from __future__ import annotations

import ast

from dynalint.rulekit import Rewrite, rw
from dynalint_rules._code.calls import callee
from dynalint_rules._code.names import only_value, parameters, stores
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.selection import Selection
from dynalint_rules._code.sharing import may_change_in_place
from dynalint_rules._shared.text import atom

_CONVERTED = ("Tensor.bool", "Tensor.to", "Tensor.cuda")


def by_diagonal(scope: Scope, selection: Selection) -> Rewrite | None:
    """Return the rewrite of `x[~torch.eye(n, dtype=torch.bool)]` or `x[eye]`, or None for any other selection."""
    found, tensor = _eye_of(scope, selection.mask), scope.tensor(selection.source)
    if found is None or (tensor is not None and tensor.rank not in (None, 2)) or _changes_in_place(scope, selection):
        return None
    eye, negated = found
    source, size, node = selection.source, eye.args[0], selection.node
    text = atom(source, scope.text(source))
    if not negated:
        new, title = f"{text}.diagonal()", "Take the diagonal"
    else:
        known = _keeps_its_value(scope, size)
        if not known and not isinstance(source, ast.Name):
            return None
        n = atom(size, scope.text(size)) if known else f"{text}.shape[0]"
        outer = scope.parents.get(node)
        shaped = isinstance(outer, ast.Attribute) and outer.attr in ("view", "reshape")
        node = outer if isinstance(outer, ast.Attribute) and shaped else node
        new = f"{text}.flatten()[1:].view({n} - 1, {n} + 1)[:, :-1].{'reshape' if shaped else 'flatten()'}"
        title = "Drop the diagonal with views"
    condition = f"{scope.quote(source)} is a square matrix"
    edits = rw.written(scope.file, (node, new))
    return Rewrite(title, "conditional", edits, (condition,), scope.imports, ranks=True)


def _changes_in_place(scope: Scope, selection: Selection) -> bool:
    """Return whether code changes the matrix or the selected elements, which may become a view of it, in place."""
    outer: ast.AST | None = scope.parents.get(selection.node)
    while isinstance(outer, ast.Attribute | ast.Call):  # such as `.view(n, -1)`
        if isinstance(outer, ast.Attribute) and outer.attr.endswith("_"):
            return True
        outer = scope.parents.get(outer)
    target = outer.targets[0] if isinstance(outer, ast.Assign) else None
    named = [one.id for one in (selection.source, target) if isinstance(one, ast.Name)]
    return any(may_change_in_place(scope, name) for name in named)


def _eye_of(scope: Scope, mask: ast.expr) -> tuple[ast.Call, bool] | None:
    """Return the call of `torch.eye` that makes a mask, and whether the mask is negated, or None for any other mask."""
    if isinstance(mask, ast.Name):
        value = only_value(scope, mask.id, mask)
        return None if value is None or may_change_in_place(scope, mask.id) else _eye_of(scope, value)
    if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert):
        found = _eye_of(scope, mask.operand)
        return (found[0], not found[1]) if found is not None else None
    if not isinstance(mask, ast.Call):
        return None
    if callee(scope, mask) in _CONVERTED and isinstance(mask.func, ast.Attribute):
        return _eye_of(scope, mask.func.value)
    square = len(mask.args) == 1 and all(one.arg in ("dtype", "device") for one in mask.keywords)
    return (mask, False) if callee(scope, mask) == "torch.eye" and square else None


def _keeps_its_value(scope: Scope, node: ast.expr) -> bool:
    """Return whether an expression has the same value wherever the function evaluates it."""
    if isinstance(node, ast.Name):
        return len(list(stores(scope, node.id))) + (node.id in parameters(scope)) == 1
    return isinstance(node, ast.Constant)
