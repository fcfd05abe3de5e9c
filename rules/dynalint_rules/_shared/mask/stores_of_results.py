"""Rewrite stores of several results that a call computes from elements selected by a mask.

y[m], slope[m] = spline(x[m], knots[m, :])      new_y, new_slope = spline(torch.where(m, x, -1), knots)
                                                y = torch.where(m, new_y, y)
                                                slope = torch.where(m, new_slope, slope)

The function gets all elements, in the shape that they have, so a run must show that it treats each one by itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from dynalint.rulekit import Refusal, Rewrite, k, rw, walk
from dynalint_rules._code.effects import effects_of
from dynalint_rules._code.memory import is_own
from dynalint_rules._code.names import only_value
from dynalint_rules._code.passed_values import parameter_of
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.selection import source_of
from dynalint_rules._code.sharing import may_change_in_place
from dynalint_rules._shared.branch.branch_values import FINITE, NO_RAISE

_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.GtE: ast.LtE, ast.LtE: ast.GtE}
_TITLE = "Call it for all elements and select with `torch.where`"


def results_stored(scope: Scope, statement: ast.stmt) -> Rewrite | None:
    """Return the rewrite of a statement that stores several results of a call through one mask, or None for others."""
    call = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    targets = _targets(statement.targets[0]) if isinstance(statement, ast.Assign) and call is not None else []
    if not targets or not isinstance(call, ast.Call) or not isinstance(statement, ast.Assign):
        return None
    mask = targets[0].slice
    if any(ast.dump(one.slice) != ast.dump(mask) for one in targets) or not isinstance(mask, ast.Name):
        return None
    parts = (one for one in walk(call) if isinstance(one, ast.expr))
    reads = {one: source for one in parts if (source := _source(scope, one, mask)) is not None}
    given = [*call.args, *(one.value for one in call.keywords)]
    others = [one for one in given if one not in reads]
    used = any(part in reads for one in others for part in walk(one))
    if not reads or used or not all(map(partial(_is_known, scope), others)):
        raise Refusal(f"an argument of {scope.quote(call)} may depend on which elements are selected")
    _require_untouched(scope, call, reads)
    names = [one.value.id for one in targets if isinstance(one.value, ast.Name)]
    if len(names) < len(targets) or not all(is_own(scope, name, statement) for name in names):
        raise Refusal(f"{scope.quote(statement.targets[0])} changes a tensor that may be known elsewhere")
    new = [scope.fresh_name(f"new_{name}") for name in names]
    whole = {one: within_bounds(scope, source, mask) or scope.text(source) for one, source in reads.items()}
    shown = scope.text(mask)
    lines = [f"{', '.join(new)} = {rw.spliced(scope.file, call, whole)}"]
    lines += [f"{name} = {scope.torch}.where({shown}, {value}, {name})" for name, value in zip(names, new, strict=True)]
    edits = rw.written(scope.file, (statement, lines))
    conditions = (f"{scope.quote(call.func)} computes each element independently, in any shape", NO_RAISE, FINITE)
    return Rewrite(_TITLE, "conditional", edits, conditions, scope.imports, ranks=True)


def _require_untouched(scope: Scope, call: ast.Call, reads: Iterable[ast.expr]) -> None:
    """Ensure that a function does not modify what it gets, because it gets the tensors instead of selected copies.

    Raises:
        Refusal: If the function modifies an argument, or is not known.
    """
    for called in scope.kind(call.func).members:
        if not isinstance(called, k.Function):
            effects_of(scope, [call])
            continue
        inner = replace(scope, function=called.function)
        for one in reads:
            name = parameter_of(called, call, one)
            if name is None or may_change_in_place(inner, name):
                raise Refusal(f"{scope.quote(call.func)} may modify {scope.quote(one)} in place")


def within_bounds(scope: Scope, source: ast.expr, mask: ast.expr) -> str | None:
    """Return the code of a tensor that is within the bounds of a mask everywhere, or None if the mask has no bounds.

    The tensor is `source`, and the mask compares it with one number or two, as in `(x >= low) & (x <= high)`. A bound
    replaces the other elements, also those that are NaN.
    """
    value = only_value(scope, mask.id, mask) if isinstance(mask, ast.Name) else mask
    both = [value.left, value.right] if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitAnd) else [value]
    bounds: dict[type[ast.cmpop], ast.expr] = {}
    for one in both:
        if not isinstance(one, ast.Compare) or len(one.ops) != 1:
            return None
        op, bound, tested = type(one.ops[0]), one.comparators[0], one.left
        if ast.dump(bound) == ast.dump(source):
            op, bound, tested = _MIRRORED.get(op, op), tested, bound
        if ast.dump(tested) != ast.dump(source) or op not in _MIRRORED or not k.is_number(scope.kind(bound)):
            return None
        bounds[op] = bound
    safe = bounds.get(ast.GtE, bounds.get(ast.LtE))
    assert safe is not None
    return f"{scope.torch}.where({scope.text(mask)}, {scope.text(source)}, {scope.text(safe)})"


def _targets(node: ast.expr) -> list[ast.Subscript]:
    """Return the items of a tuple of subscripts, or none for anything else."""
    items = node.elts if isinstance(node, ast.Tuple) else []
    found = [one for one in items if isinstance(one, ast.Subscript)]
    return found if len(found) == len(items) else []


def _source(scope: Scope, node: ast.expr, mask: ast.Name) -> ast.expr | None:
    """Return the tensor from which `x[mask]` or `x[mask, :]` selects, or None for any other expression."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        first, *others = node.slice.elts
        whole = all(isinstance(one, ast.Slice) and one.lower is one.upper is one.step is None for one in others)
        return node.value if whole and ast.dump(first) == ast.dump(mask) else None
    return source_of(scope, node, mask)


def _is_known(scope: Scope, node: ast.expr) -> bool:
    """Return whether an argument is a Python value, which does not depend on the mask."""
    kind = scope.kind(node)
    return isinstance(node, ast.Constant) or kind == k.NONE or all(isinstance(one, k.Value) for one in kind.members)
