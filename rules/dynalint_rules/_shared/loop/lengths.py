"""A loop that writes one number into each row up to a length, or from one on: a mask over all rows.

for i in range(batch):               positions = torch.arange(mask.shape[1], device=mask.device)
    mask[i, : lengths[i]] = True     mask[positions < lengths[:, None]] = True
"""

from __future__ import annotations

import ast

from dynalint.rulekit import Refusal, Rewrite, k, rw, walk, walk_function
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.text import atom

_OTHER = "the loop does more than write a number up to a length; write it as one operation on the whole tensor"


def rewrite_lengths(scope: Scope, loop: ast.stmt | None) -> Rewrite:
    """Return the rewrite of a loop over rows whose only statement is `tensor[row, : length] = number`.

    Raises:
        Refusal: it is another loop.
    """
    if not isinstance(loop, ast.For) or loop.orelse or len(loop.body) != 1:
        raise Refusal(_OTHER)
    store = loop.body[0]
    target = store.targets[0] if isinstance(store, ast.Assign) and len(store.targets) == 1 else None
    place = target.slice if isinstance(target, ast.Subscript) else None
    if not isinstance(store, ast.Assign) or not isinstance(target, ast.Subscript) or not isinstance(place, ast.Tuple):
        raise Refusal(_OTHER)
    row, columns, *rest = place.elts
    sign, bound = _bound(columns)
    given = _lengths(loop, row, bound)
    tensor = scope.tensor(target.value)
    if given is None or tensor is None or not isinstance(target.value, ast.Name | ast.Attribute):
        raise Refusal(_OTHER)
    names = {node.id for node in walk(loop.target) if isinstance(node, ast.Name)}
    if any(_is_read_outside(scope, name) for name in names):
        raise Refusal("the last row or length is used after the loop; write it by hand")
    inside = (node for part in (store.value, given, target.value) for node in walk(part))
    if not k.is_number(scope.kind(store.value)) or any(isinstance(one, ast.Name) and one.id in names for one in inside):
        raise Refusal(_OTHER)
    lengths = scope.tensor(given)
    if lengths is None or lengths.rank not in (1, None) or not all(map(_is_whole, rest)):
        raise Refusal(_OTHER)
    written, length = scope.text(target.value), atom(given, scope.text(given))
    positions = scope.fresh_name("positions")
    lines = [
        f"{positions} = {scope.torch}.arange({written}.shape[1], device={written}.device)",
        f"{written}[{positions} {sign} {length}[:, None]] = {scope.text(store.value)}",
    ]
    condition = (
        f"the loop goes over all rows of `{written}`, and {scope.quote(given)} holds one length for each, none of them "
        f"negative, on the device of `{written}`"
    )
    edits = rw.written(scope.file, (loop, lines))
    return Rewrite("Write through a mask over all rows", "conditional", edits, (condition,), scope.imports)


def _is_read_outside(scope: Scope, name: str) -> bool:
    """Whether a name that a loop binds is read outside of all loops that bind it."""
    for node in walk_function(scope.function.node):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            above = scope.parents.get(node)
            while above is not None and not (isinstance(above, ast.For) and _binds(above.target, name)):
                above = scope.parents.get(above)
            if above is None:
                return True
    return False


def _binds(target: ast.expr, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in walk(target))


def _bound(columns: ast.expr) -> tuple[str, ast.expr]:
    """Return how positions compare with the bound of a slice, and the bound."""
    if isinstance(columns, ast.Slice) and columns.step is None:
        if columns.lower is None and columns.upper is not None:
            return "<", columns.upper
        if columns.upper is None and columns.lower is not None:
            return ">=", columns.lower
    raise Refusal(_OTHER)


def _lengths(loop: ast.For, row: ast.expr, bound: ast.expr) -> ast.expr | None:
    """Return the tensor that has a length for each round: what the row indexes, or what `enumerate` goes over."""
    called = loop.iter if isinstance(loop.iter, ast.Call) and len(loop.iter.args) == 1 else None
    function = called.func.id if called is not None and isinstance(called.func, ast.Name) else ""
    if called is None or called.keywords or not isinstance(row, ast.Name):
        return None
    if function == "range" and isinstance(loop.target, ast.Name) and loop.target.id == row.id:
        indexed = isinstance(bound, ast.Subscript) and isinstance(bound.slice, ast.Name) and bound.slice.id == row.id
        return bound.value if isinstance(bound, ast.Subscript) and indexed else None
    if function == "enumerate" and isinstance(loop.target, ast.Tuple):
        counted = [one.id if isinstance(one, ast.Name) else None for one in loop.target.elts]
        return called.args[0] if isinstance(bound, ast.Name) and counted == [row.id, bound.id] else None
    return None


def _is_whole(part: ast.expr) -> bool:
    """Whether this is `:` or `...`."""
    if isinstance(part, ast.Slice):
        return part.lower is part.upper is part.step is None
    return isinstance(part, ast.Constant) and part.value is ...
