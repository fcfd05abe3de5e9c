"""Rows that a mask selects only for `masked_scatter` to put them elsewhere: rows in an order that has them first do.

parts = parts[mask]                         order = (~mask).flatten().argsort(stable=True)
out = out.masked_scatter(places, parts)     parts = parts.flatten(0, 1)[order]
                                            out = out.masked_scatter(places, parts)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dynalint import rewriting as rw
from dynalint.analysis import kinds as k
from dynalint.analysis.events import Subscript
from dynalint.rules import Rewrite
from dynalint_rules._shared.counts import Count, count_of
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.memory import may_change_in_place
from dynalint_rules._shared.names import loads
from dynalint_rules._shared.numbers import Flow, flow_of
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.text import atom

_TITLE = "Put the selected rows first instead of taking them out"


def scattered_elsewhere(scope: Scope, event: Subscript) -> Rewrite | None:
    """The rewrite of `x = y[mask]` where `masked_scatter` takes `x`; None where more is done with the rows.

    Raises:
        Refusal: the number of rows is asked for where no tensor will do.
    """
    node, statement = event.node, event.statement
    mask, source = scope.tensor(node.slice), scope.tensor(node.value)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or statement.value is not node:
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or mask is None or source is None or event.position.loop:
        return None
    if not is_pure(scope, node.slice) or may_change_in_place(scope, target.id):
        return None
    uses = [use for use in loads(scope, target.id) if use.lineno > (statement.end_lineno or 0)]
    counts = [one for one in (count_of(scope, use) for use in uses) if one is not None]
    scattered = [use for use in uses if _is_scattered(scope, use)]
    others = [use for use in uses if use not in scattered and count_of(scope, use) is None]
    if not scattered or any(not _keeps_rows(scope, use, target.id) for use in others):
        return None
    return _rewrite(scope, event, target.id, counts, mask.rank)


def _is_scattered(scope: Scope, use: ast.Name) -> bool:
    """Whether a use is the source of `masked_scatter`, moved or converted or not."""
    node = _converted(scope, use)
    call = scope.parents[node]
    if not isinstance(call, ast.Call) or len(call.args) != 2 or call.args[1] is not node or call.keywords:
        return False
    callee = scope.kind(call.func)
    return isinstance(callee, k.Method) and callee.name == "masked_scatter"


def _keeps_rows(scope: Scope, use: ast.Name, name: str) -> bool:
    """Whether a use asks for nothing of the rows, or gives them the same name as they are."""
    statement = scope.parents[_converted(scope, use)]
    if isinstance(statement, ast.Assign) and [ast.unparse(one) for one in statement.targets] == [name]:
        return True
    parent = scope.parents[use]
    if not isinstance(parent, ast.Attribute):
        return False
    outer = scope.parents[parent]
    if parent.attr == "shape" and isinstance(outer, ast.Subscript) and isinstance(outer.slice, ast.Constant):
        return bool(outer.slice.value)
    return parent.attr in ("dtype", "device")


def _converted(scope: Scope, node: ast.expr) -> ast.expr:
    """Return the outermost `.to(...)` around an expression."""
    parent = scope.parents[node]
    call = scope.parents[parent] if isinstance(parent, ast.Attribute) and parent.attr in ("to", "contiguous") else None
    if isinstance(call, ast.Call) and call.func is parent:
        return _converted(scope, call)
    return node


def _rewrite(scope: Scope, event: Subscript, name: str, counts: list[Count], rank: int | None) -> Rewrite:
    node, file = event.node, scope.file
    mask, source = (atom(one, scope.text(one)) for one in (node.slice, node.value))
    order = scope.fresh_name("order")
    inverse = f"(~{mask})"
    if rank == 1:
        head, rows = f"{order} = {inverse}.argsort(stable=True)", f"{source}[{order}]"
    else:
        last = f"{mask}.dim() - 1" if rank is None else rank - 1
        head = f"{order} = {inverse}.flatten().argsort(stable=True)"
        rows = f"{source}.flatten(0, {last})[{order}]"
    changes: list[rw.Change] = [(event.statement, [head, event.statement]), (node, rows)]
    conditions = [f"as many rows are put elsewhere as {scope.quote(node.slice)} selects"]
    flows = [flow_of(scope, one.node, "int", wide=True) for one in counts]
    for one in counts:
        size = f"{mask}.sum()"
        changes.append((one.node, f"{size} * {name}.shape[1:].numel()" if one.elements else size))
    changes += [edit for flow in flows for edit in flow.edits]
    conditions += _clauses(flows)
    leaves = tuple(code for flow in flows for code in flow.leaves)
    imports = tuple(one for flow in flows for one in flow.imports)
    return Rewrite(_TITLE, "conditional", rw.written(file, *changes), tuple(dict.fromkeys(conditions)), imports, leaves)


def _clauses(flows: list[Flow]) -> Iterator[str]:
    for flow in flows:
        yield from flow.clauses
