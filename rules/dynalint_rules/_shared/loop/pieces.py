"""A tensor that is cut into pieces by lengths that come from data, only for the pieces to be put together again."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint_rules._code.calls import callee
from dynalint_rules._code.names import loads, only_value
from dynalint_rules._code.scope import Scope

_SPLITS = {"torch.split": 1, "torch.functional.split": 1, "Tensor.split": 0}
"""The functions that cut a tensor, each with the position of the lengths among its arguments."""

JOINS = frozenset({"torch.cat", "torch.concat", "torch.concatenate"})


@dataclass(frozen=True)
class Cut:
    """`call` cuts `source` along `axis` into pieces of lengths that a list of numbers holds."""

    call: ast.Call
    source: ast.expr
    axis: int


def cuts_by(scope: Scope, sizes: ast.expr) -> list[Cut] | None:
    """Return the calls that cut tensors by the list `sizes`; None if anything else is done with it.

    The list is the argument itself, or has a name, or is that name.
    """
    made = maker_of(scope, sizes)
    if made is None:
        found = cut_at(scope, sizes)
        return None if found is None else [found]
    target = made.targets[0]
    assert isinstance(target, ast.Name)
    cuts = [cut_at(scope, use) for use in loads(scope, target.id)]
    return [one for one in cuts if one is not None] if cuts and None not in cuts else None


def maker_of(scope: Scope, sizes: ast.expr) -> ast.Assign | None:
    """Return the statement that gives the list `sizes` its name, the only value of it; None where there is none."""
    value = only_value(scope, sizes.id, scope.function.node.args) if isinstance(sizes, ast.Name) else sizes
    statement = None if value is None else scope.parents[value]
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    named = isinstance(target, ast.Name) and only_value(scope, target.id, scope.function.node.args) is value
    return statement if named else None


def cut_at(scope: Scope, sizes: ast.expr) -> Cut | None:
    """Return the call that takes `sizes` for the lengths of its pieces."""
    parent = scope.parents[sizes]
    call = scope.parents[parent] if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call):
        return None
    position = _SPLITS.get(callee(scope, call))
    if position is None:
        return None
    given = dict(enumerate(call.args)) | {keyword.arg: keyword.value for keyword in call.keywords}
    if sizes not in (given.get(position), given.get("split_size_or_sections"), given.get("split_size")):
        return None
    if position == 0 and isinstance(call.func, ast.Attribute):
        source: ast.expr | None = call.func.value
    else:
        source = given.get(0, given.get("tensor"))
    axis = axis_of(given.get(position + 1, given.get("dim")))
    return None if source is None or axis is None else Cut(call, source, axis)


def axis_of(node: ast.expr | None) -> int | None:
    """Return the axis that an argument says, the first where there is none; None where it is no plain number."""
    if node is None:
        return 0
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, int) else None


def join_of(scope: Scope, pieces: ast.expr) -> tuple[ast.Call, int] | None:
    """Return the call that puts `pieces` together again, and along which axis; None if something else takes them."""
    call = scope.parents[pieces]
    if not isinstance(call, ast.Call) or not call.args or call.args[0] is not pieces:
        return None
    axis = joined_axis(call) if callee(scope, call) in JOINS else None
    return None if axis is None else (call, axis)


def joined_axis(call: ast.Call) -> int | None:
    """Return the axis along which a call such as `torch.cat(pieces, dim=1)` puts tensors together."""
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    if len(call.args) > 2 or not named.keys() <= {"dim", "axis"}:
        return None
    return axis_of(call.args[1] if len(call.args) == 2 else named.get("dim", named.get("axis")))
