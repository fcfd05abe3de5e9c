"""Add to one tensor what the branches of an `if` add to it, or zero.

if x.mean() > 0:                            out[:, 0] += torch.where(x.mean() > 0, y, -z)
    out[:, 0] += y
else:
    out[:, 0] -= z
"""

from __future__ import annotations

import ast

from dynalint.rulekit import Rewrite, k, rw
from dynalint_rules._code.effects import effects_of_always, is_pure
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.selection import refuse_other_breaks
from dynalint_rules._shared.branch.blocks import is_elif
from dynalint_rules._shared.branch.branch_values import FINITE, NO_RAISE
from dynalint_rules._shared.branch.choice import finished
from dynalint_rules._shared.branch.chosen_elements import is_fixed, is_written_anyway
from dynalint_rules._shared.branch.domain import guarded_operands
from dynalint_rules._shared.branch.truth import is_tensor_test, truth_of
from dynalint_rules._shared.text import atom

_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-"}
_TITLE = "Add the selected value, or zero"
_IN_PLACE = "adding zero to {} in place makes no difference"


def rewrite_sums(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of an `if` whose branches only add to the same element of a tensor, or None for any other.

    Raises:
        Refusal: If a value must not be computed on every call.
    """
    head = statement
    while is_elif(scope, head) and isinstance(parent := scope.parents[head], ast.If):
        head = parent
    branches, others = [head], head.orelse
    while len(others) == 1 and isinstance(others[0], ast.If):
        branches.append(others[0])
        others = others[0].orelse
    bodies = [*(one.body for one in branches), *([others] if others else [])]
    sums = [one for body in bodies for one in body if isinstance(one, ast.AugAssign)]
    if not all(len(body) == 1 for body in bodies) or len(sums) < len(bodies) or not _are_alike(scope, sums):
        return None
    if not all(is_tensor_test(scope, one.test) and is_pure(scope, one.test) for one in branches):
        return None
    effects_of_always(scope, [*(one.value for one in sums), *(one.test for one in branches[1:])], head)
    values = [one.value for one in sums]
    refuse_other_breaks(scope, values, head)
    if any(guarded_operands(scope, one) for one in values):
        return None
    truths = [truth_of(scope, one.test) for one in branches]
    # The sum has the sign of the first branch.
    target, first, last = scope.text(sums[0].target), sums[0], sums[-1]
    # A number does not decide the dtype of a sum, but the tensor that `torch.where` makes of it may. An unsigned
    # integer has no negation.
    whole = any(_is_float_number(scope, one.value) for one in sums) or not _are_of_one_kind(scope, sums)
    if whole and not _is_float(scope, first):
        return None
    chosen = (_sum(scope, last) if whole else _signed(scope, last, first)) if others else target if whole else "0"
    for truth, one in reversed([*zip(truths, sums, strict=False)]):
        value = _sum(scope, one) if whole else _signed(scope, one, first)
        chosen = f"{scope.torch}.where({truth.without_dimensions}, {value}, {chosen})"
    line = f"{target} = {chosen}" if whole else f"{target} {_SIGNS[type(first.op)]}= {chosen}"
    conditions = [text for truth in truths for text in truth.selecting_conditions]
    conditions += [_IN_PLACE.format(scope.quote(sums[0].target)), NO_RAISE]
    conditions += [] if all(k.is_number(scope.kind(one.value)) for one in sums) else [FINITE]
    return finished(scope, _TITLE, rw.written(scope.file, (head, [line])), conditions)


def _is_float_number(scope: Scope, value: ast.expr) -> bool:
    kind = scope.kind(value)
    return k.is_number(kind) and any(getattr(one, "type", "") != "int" for one in kind.members)


def _are_of_one_kind(scope: Scope, sums: list[ast.AugAssign]) -> bool:
    """Return whether the operands are all numbers, or all tensors that can be negated if the signs differ."""
    numbers = [k.is_number(scope.kind(one.value)) for one in sums]
    signs = {type(one.op) for one in sums}
    floats = (getattr(scope.tensor(one.value), "dtype", None) == "float" for one in sums)
    return all(numbers) or (not any(numbers) and (len(signs) == 1 or all(floats)))


def _is_float(scope: Scope, one: ast.AugAssign) -> bool:
    tensor = scope.tensor(one.target.value) if isinstance(one.target, ast.Subscript) else None
    return tensor is not None and tensor.dtype == "float"


def _sum(scope: Scope, one: ast.AugAssign) -> str:
    """Return the text of the new value."""
    return f"{scope.text(one.target)} {_SIGNS[type(one.op)]} {_operand(scope, one.value)}"


def _signed(scope: Scope, one: ast.AugAssign, first: ast.AugAssign) -> str:
    """Return the text of what a statement adds if the sum is written with the sign of the `first` one."""
    return scope.text(one.value) if type(one.op) is type(first.op) else f"-{_operand(scope, one.value)}"


def _operand(scope: Scope, value: ast.expr) -> str:
    return scope.text(value) if isinstance(value, ast.Constant) else atom(value, scope.text(value))


def _are_alike(scope: Scope, sums: list[ast.AugAssign]) -> bool:
    """Return whether statements add to the same element of a tensor, or subtract from it."""
    target = sums[0].target if sums else None
    same = all(ast.unparse(one.target) == ast.unparse(sums[0].target) for one in sums)
    signs = all(isinstance(one.op, ast.Add | ast.Sub) for one in sums)
    tensor = scope.tensor(target.value) if isinstance(target, ast.Subscript) else None
    known = tensor is not None and not tensor.array and tensor.dtype != "bool"
    if not (same and signs and known and isinstance(target, ast.Subscript) and is_fixed(scope, target)):
        return False
    return all(is_written_anyway(scope, target, one.value) for one in sums)
