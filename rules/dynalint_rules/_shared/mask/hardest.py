"""Means of the hardest examples: those above a threshold, or a minimum number of them if these are too few.

if loss[n] > t:                     kept = torch.where(loss[n] > t, loss > t, torch.arange(...) < n)
    loss = loss[loss > t]           return torch.where(kept, loss, 0).sum() / kept.sum()
else:
    loss = loss[:n]
return loss.mean()

hard = loss[loss > t]               hard = loss > t
if hard.numel() < n:                few = hard.sum() < n
    hard, _ = loss.topk(n)          hard_mean = torch.where(hard, loss, 0).sum() / torch.where(few, 1, hard.sum())
return hard.mean()                  return torch.where(few, loss.topk(n).values.mean(), hard_mean)
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynalint.rulekit import Rewrite, k, rw, walk
from dynalint_rules._code.bounds import may_be_negative
from dynalint_rules._code.calls import callee
from dynalint_rules._code.counts import count_of
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.names import around, lineage, loads
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.selection import source_of
from dynalint_rules._shared.branch.truth import truth_of
from dynalint_rules._shared.mask.selected_totals import OTHER_ORDER
from dynalint_rules._shared.number.flow import is_whole

_TITLE = "Reduce over all elements with a mask"
if TYPE_CHECKING:
    Changes = tuple[list[rw.Change], list[str]]

_MEANS, _TOPK = ("Tensor.mean", "torch.mean"), ("Tensor.topk", "torch.topk")


@dataclass(frozen=True)
class _Choice:
    """An `if` that decides which elements of `source` the name `chosen` has, and the `mean` of it that follows."""

    source: ast.Name
    chosen: str
    mean: ast.Call


def mean_of_hardest(scope: Scope, statement: ast.AST | None) -> Rewrite | None:
    """Return the rewrite of an `if` that decides which elements are averaged, or None for any other statement."""
    if not isinstance(statement, ast.If) or not is_pure(scope, statement.test):
        return None
    if any(isinstance(one, ast.For | ast.While) for one in lineage(scope, statement)):
        return None
    found = _choice(scope, statement)
    tensor = scope.tensor(found.source) if found is not None else None
    if found is None or tensor is None or tensor.rank not in (None, 1):
        return None
    rewrite = _cut_or_selected(scope, statement, found) or _enough_or_largest(scope, statement, found)
    if rewrite is None:
        return None
    changes, conditions = rewrite
    conditions += [] if tensor.rank == 1 else [f"`{found.source.id}` has one dimension"]
    return Rewrite(_TITLE, "conditional", rw.written(scope.file, *changes), (*conditions, OTHER_ORDER), scope.imports)


def _choice(scope: Scope, statement: ast.If) -> _Choice | None:
    """Return what an `if` chooses if the mean in the next statement is all that reads it, or None."""
    first = statement.body[0]
    value = _taken(first)
    following = next(iter(around(scope.parents, statement)[1]), None)
    simple = isinstance(following, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return | ast.Expr)
    if len(statement.body) != 1 or len(statement.orelse) > 1 or value is None or not simple or following is None:
        return None
    target, source = value[0], _source(scope, value[1])
    if source is None:
        return None
    after = [one for one in loads(scope, target) if one.lineno > (statement.end_lineno or 0)]
    means = [one for one in walk(following) if isinstance(one, ast.Call) and callee(scope, one) in _MEANS]
    plain = len(after) == len(means) == 1 and ast.unparse(means[0]) in (f"{target}.mean()", f"torch.mean({target})")
    return _Choice(source, target, means[0]) if plain else None


def _taken(statement: ast.stmt | None) -> tuple[str, ast.expr] | None:
    """Return the name and the value of `name = value`, also of `name, _ = x.topk(n)`, or None."""
    match statement:
        case ast.Assign([ast.Name(name)], value):
            return name, value
        case ast.Assign([ast.Tuple([ast.Name(name), ast.Name()])], value):
            return name, value
    return None


def _source(scope: Scope, value: ast.expr) -> ast.Name | None:
    """Return the tensor that `x[mask]`, `x[:n]`, `x.topk(n)` or `torch.topk(x, n)` takes elements from, or None."""
    match value:
        case ast.Attribute(call, "values") | ast.Subscript(ast.Call() as call, ast.Constant(0)):
            value = call
    if isinstance(value, ast.Call) and callee(scope, value) in _TOPK:
        method = callee(scope, value).startswith("Tensor.") and isinstance(value.func, ast.Attribute)
        source = value.func.value if method and isinstance(value.func, ast.Attribute) else next(iter(value.args), None)
    else:
        source = value.value if isinstance(value, ast.Subscript) else value
    return source if isinstance(source, ast.Name) else None


def _cut_or_selected(scope: Scope, statement: ast.If, found: _Choice) -> Changes | None:
    """Return the changes to an `if` that selects with a mask in one branch and cuts in the other, or None."""
    other = _taken(statement.orelse[0]) if statement.orelse else None
    one = _taken(statement.body[0])
    if one is None or other is None or other[0] != found.chosen or isinstance(statement.orelse[0], ast.If):
        return None
    taken, conditions, masks = found.source.id, list[str](), list[str]()
    for value in (one[1], other[1]):
        if not isinstance(value, ast.Subscript) or not isinstance(value.value, ast.Name) or value.value.id != taken:
            return None
        if isinstance(value.slice, ast.Slice):
            upper = value.slice.upper
            if upper is None or value.slice.lower or value.slice.step or not _is_known(scope, upper):
                return None
            if may_be_negative(scope, upper):
                return None
            masks.append(f"{scope.torch}.arange({taken}.shape[0], device={taken}.device) < {scope.text(upper)}")
            conditions.append(f"{scope.quote(upper)} is not negative")
        elif source_of(scope, value, value.slice) is not None and scope.dtype(value.slice) == "bool":
            masks.append(scope.text(value.slice))
        else:
            return None
    truth, kept = truth_of(scope, statement.test), scope.fresh_name("kept")
    line = f"{kept} = {scope.torch}.where({truth.without_dimensions}, {', '.join(masks)})"
    total = f"{scope.torch}.where({kept}, {taken}, 0).sum() / {kept}.sum()"
    return [(statement, [line]), (found.mean, total)], [*truth.selecting_conditions, *conditions]


def _enough_or_largest(scope: Scope, statement: ast.If, found: _Choice) -> Changes | None:
    """Return the changes to a selection that is replaced by the largest elements if there are too few, or None."""
    before = next(reversed(around(scope.parents, statement)[0]), None)
    named, largest, test = _taken(before), _taken(statement.body[0]), statement.test
    if before is None or named is None or largest is None or statement.orelse:
        return None
    (name, read), bound = named, _least(scope, test, found.chosen)
    calls = [one for one in walk(largest[1]) if isinstance(one, ast.Call) and callee(scope, one) in _TOPK]
    if name != found.chosen or bound is None or len(calls) != 1 or calls[0].keywords:
        return None
    selected = isinstance(read, ast.Subscript) and ast.unparse(read.value) == found.source.id
    if not selected or not isinstance(read, ast.Subscript) or scope.dtype(read.slice) != "bool":
        return None
    if ast.dump(calls[0].args[-1]) != ast.dump(bound) or not _is_known(scope, bound):
        return None
    torch, taken, few = scope.torch, found.source.id, scope.fresh_name("few")
    hard_mean = scope.fresh_name(f"{name}_mean")
    total = f"{torch}.where({name}, {taken}, 0).sum() / {torch}.where({few}, 1, {name}.sum())"
    chosen = f"{torch}.where({few}, {scope.text(calls[0])}.values.mean(), {hard_mean})"
    lines = [f"{name} = {scope.text(read.slice)}", f"{few} = {name}.sum() < {scope.text(bound)}"]
    lines.append(f"{hard_mean} = {total}")
    return [([before, statement], lines), (found.mean, chosen)], []


def _least(scope: Scope, test: ast.expr, name: str) -> ast.expr | None:
    """Return `n` if a test asks whether the tensor called `name` has fewer than `n` elements, or None."""
    match test:
        case ast.Compare(counted, [ast.Lt()], [bound]):
            tensors = (one for one in walk(counted) if isinstance(one, ast.Name) and one.id == name)
            counts = (count_of(scope, one) for one in tensors)
            return bound if any(one is not None and one.node is counted for one in counts) else None
    return None


def _is_known(scope: Scope, number: ast.expr) -> bool:
    """Return whether a number is not read from a tensor, as far as the code shows."""
    kind = scope.kind(number)
    return is_whole(kind) or isinstance(kind, k.Unknown)
