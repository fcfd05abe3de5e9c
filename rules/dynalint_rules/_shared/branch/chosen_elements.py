"""Set elements of a tensor to what a branch sets them to, or to themselves.

if best[i] >= least:                        found = overlaps[i] == best[i]
    found = overlaps[i] == best[i]          owner[found & (best[i] >= least)] = i + 1
    owner[found] = i + 1

if best[i] >= least:                        owner[i] = torch.where(best[i] >= least, i + 1, owner[i])
    owner[i] = i + 1
"""

from __future__ import annotations

import ast

from dynalint.rulekit import Rewrite, is_mask, k, rw
from dynalint_rules._code.bounds import is_made_on_default_device
from dynalint_rules._code.effects import effects_of_always, is_pure
from dynalint_rules._code.memory import is_own
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.selection import refuse_other_breaks
from dynalint_rules._code.temporaries import computed_inside
from dynalint_rules._shared.branch.blocks import is_elif, split_test
from dynalint_rules._shared.branch.branch_values import FINITE, NO_RAISE
from dynalint_rules._shared.branch.choice import finished
from dynalint_rules._shared.branch.domain import guarded_operands
from dynalint_rules._shared.branch.truth import truth_of
from dynalint_rules._shared.number.flow import is_whole
from dynalint_rules._shared.text import atom

_TITLE = "Set the elements on every call, to themselves if the test is false"
_SAME = "setting elements of {} to their own values makes no difference"


def rewrite_elements(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of an `if` whose only branch sets elements of tensors, or None for any other `if`.

    Raises:
        Refusal: If a value must not be computed on every call.
    """
    python, test = split_test(scope, statement)
    if statement.orelse or is_elif(scope, statement) or python is not None or not is_pure(scope, test):
        return None
    inside = {one: values for one in statement.body if (values := computed_inside(scope, one, statement)) is not None}
    stores = [one for one in statement.body if one not in inside]
    if not stores or not all(_is_store(scope, one) for one in stores):
        return None
    values = [value for found in inside.values() for value in found]
    values += [one.value for one in stores if isinstance(one, ast.Assign)]
    effects_of_always(scope, values, statement)
    refuse_other_breaks(scope, values, statement)
    if any(guarded_operands(scope, one) for one in values):
        return None
    truth, lines = truth_of(scope, test), list[str | ast.stmt]()
    condition = truth.without_dimensions
    if len(stores) > 1:
        condition = scope.fresh_name("condition")
        lines.append(f"{condition} = {truth.without_dimensions}")
    lines += [one if one in inside else _written(scope, one, condition) for one in statement.body]
    conditions = [*truth.selecting_conditions, NO_RAISE]
    conditions += [_SAME.format(scope.quote(one.value)) for one in map(_target, stores) if one is not None]
    conditions += [] if all(k.is_number(scope.kind(one)) for one in values) else [FINITE]
    return finished(scope, _TITLE, rw.written(scope.file, (statement, lines)), conditions)


def _is_store(scope: Scope, statement: ast.stmt) -> bool:
    """Return whether a statement sets elements at a fixed place, or sets those that a mask selects to one value."""
    target = _target(statement)
    if not isinstance(statement, ast.Assign) or target is None:
        return False
    if not is_written_anyway(scope, target, statement.value):
        return False
    tensor, kind = scope.tensor(target.value), scope.kind(statement.value)
    known = tensor is not None and not tensor.array and is_pure(scope, target.value) and is_pure(scope, target.slice)
    if tensor is None or not known:
        return False
    numbers = k.is_number(kind) or (scope.tensor(statement.value) or k.TENSOR).rank == 0
    if is_mask(scope.kind(target.slice)):
        return numbers
    return is_fixed(scope, target) and numbers and _fits(tensor, kind)


def is_fixed(scope: Scope, target: ast.Subscript) -> bool:
    """Return whether an item is at a place that Python knows. A tensor may only be valid where the test is true."""
    parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    slices = [one for one in parts if isinstance(one, ast.Slice)]
    places = [one for one in parts if not isinstance(one, ast.Slice | ast.Constant)]
    places += [bound for one in slices for bound in (one.lower, one.upper, one.step) if bound is not None]
    return all(is_whole(scope.kind(one)) for one in places)


def is_written_anyway(scope: Scope, target: ast.Subscript, value: ast.expr) -> bool:
    """Return whether writing to a tensor on every call raises no exception, as it would for a leaf with a gradient."""
    if is_made_on_default_device(scope, target):
        return False
    base: ast.expr = target
    while isinstance(base, ast.Subscript):
        base = base.value
    if isinstance(base, ast.Name):
        return is_own(scope, base.id, target)
    tensor = scope.tensor(base)
    buffer = isinstance(base, ast.Attribute) and tensor is not None and tensor.origin == "buffer"
    return buffer and k.is_number(scope.kind(value))  # it must not get a gradient from the value


def _target(statement: ast.stmt) -> ast.Subscript | None:
    """Return the only target of an assignment if it is an item, or None."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    return target if isinstance(target, ast.Subscript) else None


def _fits(tensor: k.Tensor, kind: k.Kind) -> bool:
    """Return whether old values keep their precision when they are selected instead of the new value."""
    types = {getattr(one, "dtype", None) or getattr(one, "type", None) for one in kind.members}
    if tensor.dtype == "bool":
        return types == {"bool"}
    return tensor.dtype == "float" or (tensor.dtype == "int" and types <= {"int", "bool"})


def _written(scope: Scope, statement: ast.stmt, condition: str) -> str:
    """Return the line that replaces a store."""
    target = _target(statement)
    assert target is not None
    assert isinstance(statement, ast.Assign)
    place, value = scope.text(target), scope.text(statement.value)
    if is_mask(scope.kind(target.slice)):
        both = f"{atom(target.slice, scope.text(target.slice))} & "
        both += condition if condition.isidentifier() else f"({condition})"
        return f"{scope.text(target.value)}[{both}] = {value}"
    return f"{place} = {scope.torch}.where({condition}, {value}, {place})"
