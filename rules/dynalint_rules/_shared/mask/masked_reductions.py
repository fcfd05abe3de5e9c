"""Masked elements that are only summed, averaged or used in a loss, where neutral values can replace the others."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint.rulekit import Refusal, Replacement, Rewrite, rw
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.mask.masked import made_from
from dynalint_rules._shared.mask.trailing import is_certain

OTHER_ORDER = "the sum is computed in a different order and is equal up to rounding"


@dataclass(frozen=True)
class Selection:
    """`node` selects the elements of `source` where `mask` is true."""

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
    """Return the selection made by `x[mask]`, `x.masked_select(mask)` or `torch.masked_select(x, mask)`."""
    if isinstance(node, ast.Subscript):
        return Selection(node, node.value, node.slice)
    if node.keywords or not isinstance(node.func, ast.Attribute):
        return None
    if len(node.args) == 2:
        return Selection(node, *node.args)
    return Selection(node, node.func.value, node.args[0]) if len(node.args) == 1 else None


def reduced(scope: Scope, read: Selection) -> Rewrite | None:
    """The rewrite of `x[mask].sum()` and `x[mask].mean()`; None if the elements are used in another way."""
    reduction = _reduction_of(scope, read.node)
    if reduction is None or not may_match(scope, read):
        return None
    title = f"Take the {reduction.name} of the full shape, with zeros where the mask is false"
    edits = rw.written(scope.file, _over_all(scope, read, reduction, scope.text(read.source)))
    return _rewrite(scope, read, title, edits)


def _reduction_of(scope: Scope, values: ast.expr) -> _Reduction | None:
    attribute = scope.parents.get(values)
    call = scope.parents.get(attribute) if attribute is not None else None
    if not isinstance(attribute, ast.Attribute) or attribute.attr not in ("sum", "mean"):
        return None
    if not isinstance(call, ast.Call) or call.func is not attribute or call.args or call.keywords:
        return None
    return _Reduction(call, values, attribute.attr)


def _over_all(scope: Scope, read: Selection, reduction: _Reduction, values: str) -> rw.Change:
    """Reduce `values`, of the full shape, with zeros where the mask of `read` is false."""
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
    """Whether it certainly has: a mask with fewer dimensions selects rows, which `where` would treat as columns."""
    if isinstance(read.source, ast.Name) and made_from(scope, read.mask, read.source.id):
        return True
    mask, tensor = scope.tensor(read.mask), scope.tensor(read.source)
    return mask is not None and tensor is not None and mask.rank is not None and mask.rank == tensor.rank


def _rewrite(scope: Scope, read: Selection, title: str, edits: tuple[Replacement, ...], *more: str) -> Rewrite:
    certain = matches(scope, read)
    conditions = (OTHER_ORDER, *(() if certain else ("the mask has as many dimensions as the tensor",)), *more)
    certain = certain or is_certain(scope, read.source, read.mask)
    return Rewrite(title, "conditional" if certain else "unsafe", edits, conditions, scope.imports, shown=not certain)
