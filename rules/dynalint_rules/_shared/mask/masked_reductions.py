"""Elements that a mask selects only to be summed, averaged or made a loss of: neutral values do instead."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint.rulekit import Refusal, Replacement, Rewrite, rw, walk
from dynalint_rules._code.memory import changed_in_place
from dynalint_rules._code.names import loads, within
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.sides import FINITE
from dynalint_rules._shared.mask.masked import made_from
from dynalint_rules._shared.mask.trailing import is_certain

OTHER_ORDER = "the sum is computed in a different order and is equal up to rounding"
_ELEMENTWISE = frozenset({"abs", "square", "pow", "neg", "float", "double"})
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)


@dataclass(frozen=True)
class Selection:
    """`node` takes out of `source` what `mask` selects."""

    node: ast.expr
    source: ast.expr
    mask: ast.expr


@dataclass(frozen=True)
class _Reduction:
    """`call` is `values.sum()` or `values.mean()`."""

    call: ast.Call
    values: ast.expr
    name: str


def selection_of(node: ast.Subscript | ast.Call) -> Selection | None:
    """Return what `x[mask]`, `x.masked_select(mask)` or `torch.masked_select(x, mask)` selects."""
    if isinstance(node, ast.Subscript):
        return Selection(node, node.value, node.slice)
    if node.keywords or not isinstance(node.func, ast.Attribute):
        return None
    if len(node.args) == 2:
        return Selection(node, *node.args)
    return Selection(node, node.func.value, node.args[0]) if len(node.args) == 1 else None


def reduced(scope: Scope, read: Selection) -> Rewrite | None:
    """The rewrite of `x[mask].sum()` and `x[mask].mean()`, None where something else is done with the elements."""
    reduction = _reduction_of(scope, read.node)
    if reduction is None or not may_match(scope, read):
        return None
    title = f"Take the {reduction.name} of the full shape, with zeros where the mask is false"
    edits = rw.written(scope.file, _over_all(scope, read, reduction, scope.text(read.source)))
    return _rewrite(scope, read, title, edits)


def reduced_later(scope: Scope, read: Selection) -> Rewrite | None:
    """The rewrite of `d = d[mask]` that is followed by `(d ** 2).mean()`, None where more is done with the elements."""
    statement = scope.parents[read.node]
    if not isinstance(statement, ast.Assign) or scope.parents[statement] is not scope.function.node:
        return None
    (target, *others), source, mask = statement.targets, read.source, read.mask
    if others or not isinstance(target, ast.Name) or not isinstance(source, ast.Name) or not isinstance(mask, ast.Name):
        return None
    if not may_match(scope, read):
        return None
    uses = [use for use in loads(scope, target.id) if use.lineno > (statement.end_lineno or 0)]
    reductions = {id(found.call): found for use in uses if (found := _computed(scope, use)) is not None}
    if len(reductions) != 1 or any(_computed(scope, use) is None for use in uses):
        return None
    (reduction,) = reductions.values()
    if any(_stores_after(scope, name, statement) for name in (target.id, source.id, mask.id)):
        return None
    if any(changed_in_place(scope, name) is not None for name in (target.id, source.id, mask.id)):
        return None
    values = rw.spliced(scope.file, reduction.values, dict.fromkeys(uses, source.id))
    edits = rw.written(scope.file, (statement, []), _over_all(scope, read, reduction, values))
    title = f"Take the {reduction.name} of the full shape, with zeros where the mask is false"
    return _rewrite(scope, read, title, edits, FINITE)


def _reduction_of(scope: Scope, values: ast.expr) -> _Reduction | None:
    attribute = scope.parents.get(values)
    call = scope.parents.get(attribute) if attribute is not None else None
    if not isinstance(attribute, ast.Attribute) or attribute.attr not in ("sum", "mean"):
        return None
    if not isinstance(call, ast.Call) or call.func is not attribute or call.args or call.keywords:
        return None
    return _Reduction(call, values, attribute.attr)


def _computed(scope: Scope, node: ast.expr) -> _Reduction | None:
    """The reduction that `node` goes to, through elementwise operations with numbers or with itself."""
    found = _reduction_of(scope, node)
    if found is not None:
        return found
    parent = scope.parents.get(node)
    if parent is None:
        return None
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, _OPERATORS):
        other = parent.right if node is parent.left else parent.left
        plain = isinstance(other, ast.Constant) or ast.dump(other) == ast.dump(node)
        return _computed(scope, parent) if plain else None
    if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub):
        return _computed(scope, parent)
    call = scope.parents.get(parent)
    if isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and call.func is parent:
        plain = parent.attr in _ELEMENTWISE and all(isinstance(one, ast.Constant) for one in call.args)
        return _computed(scope, call) if plain and not call.keywords else None
    return None


def _over_all(scope: Scope, read: Selection, reduction: _Reduction, values: str) -> rw.Change:
    """Reduce `values`, of the full shape, with zeros where the mask of `read` selects nothing."""
    chosen = scope.text(read.mask)
    text = f"{scope.torch}.where({chosen}, {values}, 0).sum()"
    if reduction.name == "mean":
        if not isinstance(read.mask, ast.Name):
            raise Refusal(f"give the mask {scope.quote(read.mask)} a name first: the mean divides by its sum")
        text = f"{text} / {chosen}.sum()"
    return reduction.call, text


def may_match(scope: Scope, read: Selection) -> bool:
    """Whether the mask of a read may have as many dimensions as the tensor."""
    mask, tensor = scope.tensor(read.mask), scope.tensor(read.source)
    if mask is None or tensor is None:
        return False
    return mask.rank is None or tensor.rank is None or mask.rank == tensor.rank


def matches(scope: Scope, read: Selection) -> bool:
    """Whether it has for certain: one of fewer dimensions stands for rows, which `where` takes for columns."""
    if isinstance(read.source, ast.Name) and made_from(scope, read.mask, read.source.id):
        return True
    mask, tensor = scope.tensor(read.mask), scope.tensor(read.source)
    return mask is not None and tensor is not None and mask.rank is not None and mask.rank == tensor.rank


def _rewrite(scope: Scope, read: Selection, title: str, edits: tuple[Replacement, ...], *more: str) -> Rewrite:
    certain = matches(scope, read)
    conditions = (OTHER_ORDER, *(() if certain else ("the mask has as many dimensions as the tensor",)), *more)
    certain = certain or is_certain(scope, read.source, read.mask)
    return Rewrite(title, "conditional" if certain else "unsafe", edits, conditions, scope.imports, shown=not certain)


def _stores_after(scope: Scope, name: str, statement: ast.stmt) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
        for node in walk(scope.function.node)
        if getattr(node, "lineno", 0) >= statement.lineno and not within(node, statement, scope)
    )
