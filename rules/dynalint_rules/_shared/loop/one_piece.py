"""Pieces of a tensor that are kept for code that puts them together again: the tensor does as the only piece."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from dynalint.rulekit import Rewrite, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.names import loads, only_value
from dynalint_rules._code.scope import Scope

_SPLITS = {"torch.split": 1, "torch.functional.split": 1, "Tensor.split": 0}
"""The functions that cut a tensor, each with the position of the lengths among its arguments."""


@dataclass(frozen=True)
class _Cut:
    """`call` cuts `source` along `axis` into pieces of lengths that a list of numbers holds."""

    call: ast.Call
    source: ast.expr
    axis: int


def kept_in_one(scope: Scope, sizes: ast.expr) -> Rewrite | None:
    """The rewrite of `out.parts = x.split(sizes)` where `torch.cat` takes `out.parts`; None for anything else.

    Raises:
        Refusal: the statement of the lengths shares its line.
    """
    cuts, made = _cuts_by(scope, sizes), _maker_of(scope, sizes)
    if cuts is None or not is_pure(scope, sizes if made is None else made.value):
        return None
    kept = [_kept(scope, cut) for cut in cuts]
    names = [name for name in kept if name is not None]
    joined = {axis for name in names for axis in _joins(scope, name)}
    if len(names) != len(cuts) or not joined or any(joined != {cut.axis} for cut in cuts):
        return None
    changes: list[rw.Change] = [(cut.call, f"({scope.text(cut.source)},)") for cut in cuts]
    if made is not None:
        changes.append((made, []))
    shown = " and ".join(f"`{name}`" for name in dict.fromkeys(names))
    conditions = (
        f"{shown} holds one piece, which is equivalent only for code that joins the pieces",
        "lengths that are not those of the whole no longer raise",
    )
    return Rewrite("Keep the tensor in one piece", "unsafe", rw.written(scope.file, *changes), conditions, shown=True)


def _kept(scope: Scope, cut: _Cut) -> str | None:
    """Return the attribute that the pieces go to, by themselves or in a list of such pieces."""
    value, parent = cut.call, scope.parents[cut.call]
    if isinstance(parent, ast.ListComp) and parent.elt is value:
        parent = scope.parents[parent]
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        return None
    target = parent.targets[0]
    return target.attr if isinstance(target, ast.Attribute) else None


def _joins(scope: Scope, name: str) -> Iterator[int]:
    """Yield the axis of each `torch.cat` in the file that takes an attribute `name`, by itself or by a local name."""
    for file, function, node in scope.project.attribute_uses(name):
        if file is not scope.file or function is None or not isinstance(node.ctx, ast.Load):
            continue
        parent = scope.project.parents(function).get(node)
        target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
        for call in walk(function.node):
            if not isinstance(call, ast.Call) or not call.args or ast.unparse(call.func) != f"{scope.torch}.cat":
                continue
            first = call.args[0]
            by_name = isinstance(target, ast.Name) and isinstance(first, ast.Name) and first.id == target.id
            if first is node or by_name:
                axis = _joined_axis(call)
                yield -1 if axis is None else axis


def _cuts_by(scope: Scope, sizes: ast.expr) -> list[_Cut] | None:
    """Return the calls that cut tensors by the list `sizes`; None if anything else is done with it.

    The list is the argument itself, or has a name, or is that name.
    """
    made = _maker_of(scope, sizes)
    if made is None:
        found = _cut_at(scope, sizes)
        return None if found is None else [found]
    target = made.targets[0]
    assert isinstance(target, ast.Name)
    cuts = [_cut_at(scope, use) for use in loads(scope, target.id)]
    return [one for one in cuts if one is not None] if cuts and None not in cuts else None


def _maker_of(scope: Scope, sizes: ast.expr) -> ast.Assign | None:
    """Return the statement that gives the list `sizes` its name, the only value of it; None where there is none."""
    value = only_value(scope, sizes.id, scope.function.node.args) if isinstance(sizes, ast.Name) else sizes
    statement = None if value is None else scope.parents[value]
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    named = isinstance(target, ast.Name) and only_value(scope, target.id, scope.function.node.args) is value
    return statement if named else None


def _cut_at(scope: Scope, sizes: ast.expr) -> _Cut | None:
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
    axis = _axis_of(given.get(position + 1, given.get("dim")))
    return None if source is None or axis is None else _Cut(call, source, axis)


def _axis_of(node: ast.expr | None) -> int | None:
    """Return the axis that an argument says, the first where there is none; None where it is no plain number."""
    if node is None:
        return 0
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, int) else None


def _joined_axis(call: ast.Call) -> int | None:
    """Return the axis along which a call such as `torch.cat(pieces, dim=1)` puts tensors together."""
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    if len(call.args) > 2 or not named.keys() <= {"dim", "axis"}:
        return None
    return _axis_of(call.args[1] if len(call.args) == 2 else named.get("dim", named.get("axis")))
