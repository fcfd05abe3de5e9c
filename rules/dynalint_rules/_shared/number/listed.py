"""Loops over the elements of a tensor that `.tolist()` lists, or that read one element of each row of another tensor.

torch.stack([x[i, p] for i, p in enumerate(t.tolist())])   x[torch.arange(t.shape[0], device=x.device), t]

for row, b in zip(self.weight, self.bits.tolist()):        for row, b in zip(self.weight, self.bits):
    rows.append(row / (2**b - 1))                              rows.append(row / (2**b - 1))
"""

from __future__ import annotations

import ast

from dynalint.rulekit import Rewrite, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.memory import is_own
from dynalint_rules._code.names import loads, parameters, stores
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.number.detached import detached
from dynalint_rules._shared.number.numbers import flow_of_selected
from dynalint_rules._shared.number.row_stores import element_of_rows
from dynalint_rules._shared.text import atom


def rows_at_once(scope: Scope, node: ast.expr) -> Rewrite | None:
    """Return the rewrite of a stack of one element of each row, if `node` is a part of the list, or None."""
    rows: ast.AST | None = node
    while isinstance(rows, ast.expr | ast.comprehension) and not isinstance(rows, ast.ListComp):
        rows = scope.parents.get(rows)
    match rows:
        case ast.ListComp(ast.Subscript(ast.Name() as taken, ast.Tuple([ast.Name(row), place])), [loop]):
            stack = scope.parents[rows]
        case _:
            return None
    if not isinstance(stack, ast.Call) or callee(scope, stack) != "torch.stack" or len(stack.args) > 1 or loop.ifs:
        return None
    offset = place.right if isinstance(place, ast.BinOp) and isinstance(place.op, ast.Add | ast.Sub) else None
    bound = place.left if offset is not None and isinstance(place, ast.BinOp) else place
    source = element_of_rows(scope, loop, row, bound)
    known, array = scope.tensor(taken), scope.tensor(source) if source is not None else None
    if stack.keywords or known is None or known.array or array is None or source is None or array.array:
        return None
    if not (offset is None or isinstance(offset, ast.Constant)) or array.dtype not in ("int", None):
        return None
    base, shown = scope.text(taken), scope.text(source)
    places = rw.spliced(scope.file, place, {bound: shown})
    new = f"{base}[{scope.torch}.arange({shown}.shape[0], device={base}.device), {places}]"
    where = f"{scope.quote(source)} has one integer for each row, is not uint8, and is on the device of `{base}`"
    unsure = array.rank is None and offset is None and isinstance(bound, ast.Name)  # it may have lists as elements
    edits = rw.written(scope.file, (stack, new))
    return Rewrite("Index all rows at once", "conditional", edits, (where,), imports=scope.imports, ranks=unsure)


def row_at_mask(scope: Scope, read: ast.Call) -> Rewrite | None:
    """Return the rewrite of `x[mask] = row.repeat(int(mask.sum()), 1)` as `torch.where`, or None for other code."""
    call = scope.parents[read]
    match call, scope.parents.get(call):
        case (
            ast.Call(ast.Attribute(row, "repeat" | "expand" as method), [count, one], []),
            ast.Assign([ast.Subscript(ast.Name(taken), mask)]) as statement,
        ) if count is read and ast.unparse(one) == ("1" if method == "repeat" else "-1"):
            calls = [inner for inner in walk(read) if isinstance(inner, ast.Call) and not inner.keywords]
        case _:
            return None
    sums = [
        one.func.value for one in calls if callee(scope, one) == "Tensor.sum" and isinstance(one.func, ast.Attribute)
    ]
    tensor, dtype = scope.tensor(row), scope.dtype(mask)
    if [*map(ast.dump, sums)] != [ast.dump(mask)] or tensor is None or tensor.rank not in (1, None):
        return None
    if dtype not in ("bool", None) or not is_pure(scope, mask) or not is_own(scope, taken, statement):
        return None
    conditions = [] if dtype == "bool" else [f"{scope.quote(mask)} is a bool tensor"]
    conditions += [] if tensor.rank == 1 else [f"{scope.quote(row)} has one dimension"]
    conditions.append(f"{scope.quote(row)} has the dtype of `{taken}`")
    chosen = f"{atom(mask, scope.text(mask))}.unsqueeze(-1)"
    new = f"{taken} = {scope.torch}.where({chosen}, {scope.text(row)}, {taken})"
    edits = rw.written(scope.file, (statement, [new]))
    return Rewrite("Select the row with `torch.where`", "conditional", edits, tuple(conditions), imports=scope.imports)


def over_tensor(scope: Scope, call: ast.Call) -> Rewrite | None:
    """Return the rewrite of a loop over the numbers of a tensor that the module stores, so its size is fixed, or None.

    Raises:
        Refusal: If a use of a number does not accept a tensor.
    """
    loop, position = scope.parents[call], -1
    if isinstance(loop, ast.Call) and callee(scope, loop) in ("builtins.enumerate", "builtins.zip"):
        position = 1 if callee(scope, loop) == "builtins.enumerate" else loop.args.index(call)
        loop = scope.parents[loop]
    source = call.func.value if isinstance(call.func, ast.Attribute) else call
    tensor = scope.tensor(source)
    if not isinstance(loop, ast.For) or tensor is None or tensor.rank not in (1, None) or not is_pure(scope, source):
        return None
    if tensor.origin not in ("buffer", "parameter") or tensor.dtype not in ("int", "float"):
        return None
    items = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
    item = items[position] if position < len(items) else None
    if not isinstance(item, ast.Name) or [*stores(scope, item.id)] != [item] or item.id in parameters(scope):
        return None
    flow = flow_of_selected(scope, loads(scope, item.id), tensor.dtype, stored=True)
    text = detached(scope, source).text.removesuffix(".reshape(())").removesuffix(".clone()")
    conditions = (*flow.clauses, f"{scope.quote(source)} has one dimension, and the loop does not change it")
    edits = rw.written(scope.file, (call, text), *flow.edits)
    return Rewrite("Loop over the tensor", "conditional", edits, conditions, flow.imports, leaves=flow.leaves)
