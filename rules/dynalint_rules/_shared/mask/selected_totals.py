"""Write losses of selected elements or rows as totals over the full shape.

scores = self.head(h[known])                scores = self.head(h)
return F.mse_loss(scores, y[known])         loss = F.mse_loss(scores, y, reduction="none").mean(-1)
                                            return torch.where(known, loss, 0).sum() / known.sum()
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from dynalint.rulekit import Rewrite, Safety, rw, walk
from dynalint_rules._code.counts import count_of
from dynalint_rules._code.names import end_of, has_one_value, is_settled, loads, only_value
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.selection import Selection, refuse_counted_loops
from dynalint_rules._shared.branch.branch_values import FINITE
from dynalint_rules._shared.mask.selected_chains import Chain, is_stable
from dynalint_rules._shared.mask.trailing_dimensions import have_one_origin
from dynalint_rules._shared.number.numbers import flow_of

if TYPE_CHECKING:
    import libcst as cst

OTHER_ORDER = "the sum is computed in a different order, so it is equal up to rounding"
_TITLE = "Compute with all elements, and reduce with zeros where the mask is false"
# Values that these masks exclude are usually NaN or infinite, and so are their gradients.
_NO_NUMBERS = frozenset({"isnan", "isinf", "isfinite"})


def reduced_at_last(scope: Scope, read: Selection) -> Rewrite | None:
    """Return the rewrite of all selections with a mask in a function's body, or None if the mask has other uses.

    Raises:
        Refusal: If a loop around the selection breaks the graph anyway.
    """
    refuse_counted_loops(scope, read.node)
    chain = Chain(scope, read)
    if not is_stable(scope, read) or not chain.follow():
        return None
    short = _rewritten(chain, protected=_is_risky(chain))
    return short if _is_risky(chain) else replace(short, otherwise=_rewritten(chain, protected=True))


def _rewritten(chain: Chain, *, protected: bool) -> Rewrite:
    """Return the rewrite. If it is `protected`, elements that are not selected cannot be NaN."""
    scope, read = chain.scope, chain.read
    flows = [flow_of(scope, count, "int", wide=True) for count in chain.counts]
    changes = _changes(chain, protected)
    edits = rw.written(scope.file, *changes, *(edit for flow in flows for edit in flow.edits))
    labels = [loss.operands[1] for loss, _ in chain.losses.values() if loss.takes_labels]
    held = [f"the dtype of {scope.quote(one)} can hold the label that the loss ignores" for one in labels]
    shape = f"{scope.quote(read.mask)} covers the first dimensions of the tensor that it selects from"
    clauses = dict.fromkeys([shape, *held, OTHER_ORDER, FINITE, *(clause for flow in flows for clause in flow.clauses)])
    safety: Safety = "unsafe" if any(flow.changes for flow in flows) else "conditional"
    imports = dict.fromkeys([*scope.imports, *(one for flow in flows for one in flow.imports)])
    leaves = dict.fromkeys(code for flow in flows for code in flow.leaves)
    ranks = not chain.is_certain()
    return Rewrite(_TITLE, safety, edits, tuple(clauses), tuple(imports), tuple(leaves), ranks=ranks)


def _is_risky(chain: Chain) -> bool:
    """Return whether the new code computes what may be NaN or infinite where the mask is false."""
    mask = chain.read.mask
    value = only_value(chain.scope, mask.id, mask) if isinstance(mask, ast.Name) else mask
    asked = {one.attr for one in walk(value) if isinstance(one, ast.Attribute)} if value is not None else set()
    return chain.risky or not asked.isdisjoint(_NO_NUMBERS)


def _changes(chain: Chain, protected: bool) -> list[rw.Change]:
    """Return the changes to the selections, to what reduces them, and to the mask."""
    scope, mask = chain.scope, chain.read.mask
    value = only_value(scope, mask.id, mask) if isinstance(mask, ast.Name) else mask
    changes = _of_selections(chain, protected)
    for call, found in chain.reduced.items():
        values, count = rw.kept(scope.file, found.values), _count(chain, found.values)
        tensor = scope.tensor(found.values)
        if found.name == "sum" and not found.own and tensor is not None and tensor.dtype == "bool":
            both = rw.operation(_mask_over(chain, 0), "&", values)
            changes.append((call, rw.method(both, "sum")))
        elif found.over_rows:
            changes.append((call, _total_row(chain, values, count, found.name)))
        else:
            changes.append((call, _total(chain, values, count, found.name, found.own)))
    for call, (loss, reached) in chain.losses.items():
        if loss.takes_labels:
            changes += loss.with_ignored(scope, mask, value, _unselected(chain, loss.operands[1]))
        else:
            own, count = max(reached.values()), _count(chain, loss.operands[0])
            changes.append((call, _total(chain, loss.of_each(scope, call), count, loss.reduction, own)))
    changes += [(count, _count(chain, counted)) for count, counted in chain.counts.items()]
    for call, argument in chain.dimensions.items():
        changes.append((call, rw.along_last) if argument is None else (argument, rw.number(-1)))
    return changes + _without_mask(chain, protected)


def _of_selections(chain: Chain, protected: bool) -> list[rw.Change]:
    """Return the changes that replace selections by the tensors that they select from.

    If `protected` is true, elements that are not selected are replaced even if they are NaN. Otherwise, gradients of
    what is computed from them would be NaN.
    """
    scope = chain.scope
    changes: list[rw.Change] = []
    done: set[ast.stmt | None] = set()
    for one, own in chain.selections:
        source: cst.BaseExpression = rw.kept(scope.file, one.source)
        if protected and one.node not in [found.values for found in chain.reduced.values()]:
            source = rw.call(f"{scope.torch}.where", _mask_over(chain, own), source, rw.number(1))
            changes.append((one.node, source))
            continue
        statement = chain.statement_of(one.node)
        if statement in done:
            continue
        dropped = _without_names(chain, statement) if statement is not None else []
        done |= {statement} if dropped else set()
        changes += dropped or [(one.node, source)]
    return changes


def _mask_over(chain: Chain, own: int) -> cst.BaseExpression:
    """Return the mask with a dimension added for each dimension per element."""
    mask = chain.read.mask
    if not own:
        return rw.kept(chain.scope.file, mask)
    written = chain.scope.text(mask)
    named = isinstance(mask, ast.Name | ast.Attribute)
    return rw.expression(f"{written if named else f'({written})'}[..., {', '.join(['None'] * own)}]")


def _without_names(chain: Chain, statement: ast.Assign) -> list[rw.Change]:
    """Return the changes that remove names for selected elements because other names now have their values.

    Elements that are only counted do not need a name either. The result is empty if a name stays.
    """
    scope = chain.scope
    target, value = statement.targets[0], statement.value
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = list(zip(target.elts, value.elts, strict=True))
    by_node = {one.node: one for one, _ in chain.selections}
    changes: list[rw.Change] = []
    for name, node in pairs:
        found = by_node.get(node)
        renamed = (
            _renamed(chain, statement, name.id, found) if found is not None and isinstance(name, ast.Name) else None
        )
        if renamed is None:
            return []
        changes += renamed
    alone = [statement] in (getattr(scope.parents.get(statement), block, None) for block in ("body", "orelse"))
    return [] if alone and changes else [(statement, []), *changes]


def _renamed(chain: Chain, statement: ast.stmt, name: str, one: Selection) -> list[rw.Change] | None:
    """Return the changes that use the tensor itself in the place of a name for its selected elements, if possible."""
    scope, source = chain.scope, getattr(one.source, "id", "")
    uses = [use for use in loads(scope, name) if (use.lineno, use.col_offset) > end_of(statement)]
    uses = [use for use in uses if (count := count_of(scope, use)) is None or count.node not in chain.counts]
    if not uses or source == name:
        return []
    if not has_one_value(scope, name) or not is_settled(scope, source, statement):
        return None
    return [(use, rw.kept(scope.file, one.source)) for use in uses]


def _total(
    chain: Chain,
    values: cst.BaseExpression,
    count: cst.BaseExpression,
    name: str,
    own: int,
) -> cst.BaseExpression:
    """Return the reduction of `values` over the full shape."""
    scope = chain.scope
    if name == "mean":
        values = rw.method(values, "flatten", rw.number(-own)) if own > 1 else values
        values = rw.method(values, "mean", rw.number(-1)) if own else values
    over = _mask_over(chain, 0 if name == "mean" else own)
    total = rw.method(rw.call(f"{scope.torch}.where", over, values, rw.number(0)), "norm" if name == "norm" else "sum")
    return rw.operation(total, "/", count) if name == "mean" else total


def _total_row(chain: Chain, values: cst.BaseExpression, count: cst.BaseExpression, name: str) -> cst.BaseExpression:
    """Return the sum or mean of the selected rows."""
    mask = chain.scope.tensor(chain.read.mask)
    rows: cst.BaseExpression = rw.call(f"{chain.scope.torch}.where", _mask_over(chain, 1), values, rw.number(0))
    if mask is None or mask.rank != 1:
        rows = rw.method(rows, "flatten", rw.number(0), rw.number(-2))
    total = rw.method(rows, "sum", rw.number(0))
    return rw.operation(total, "/", count) if name == "mean" else total


def _count(chain: Chain, values: ast.expr) -> cst.BaseExpression:
    """Return the number of selected elements. `masked_select` broadcasts the mask, unless it comes from the tensor."""
    scope, mask = chain.scope, chain.read.mask
    selected = rw.kept(scope.file, mask)
    calls = [one for one, _ in chain.selections if isinstance(one.node, ast.Call)]
    if not all(have_one_origin(scope, one.source, mask) for one in calls):
        selected = rw.method(selected, "expand_as", rw.kept(scope.file, _unselected(chain, values)))
    return rw.method(selected, "sum")


def _unselected(chain: Chain, values: ast.expr) -> ast.expr:
    """Return what has the full shape of selected elements in the new code, where names for them may be removed."""
    by_node = {one.node: one for one, _ in chain.selections}
    found = chain.direct.get(values.id) if isinstance(values, ast.Name) else by_node.get(values)
    if found is None:
        return values
    kept = isinstance(values, ast.Name) and not (
        isinstance(found.source, ast.Name)
        and (found.source.id == values.id or is_settled(chain.scope, found.source.id, found.node))
    )
    return values if kept else found.source


def _without_mask(chain: Chain, protected: bool) -> list[rw.Change]:
    """Remove a mask that was only created for a loss, because the loss now ignores the label instead."""
    scope, mask = chain.scope, chain.read.mask
    if not isinstance(mask, ast.Name) or any(loss.keeps_mask for loss, _ in chain.losses.values()):
        return []
    if chain.reduced or protected or len(list(loads(scope, mask.id))) > len(chain.selections):
        return []
    made = only_value(scope, mask.id, mask)
    statement = scope.parents.get(made) if made is not None else None
    return [(statement, [])] if isinstance(statement, ast.Assign) else []
