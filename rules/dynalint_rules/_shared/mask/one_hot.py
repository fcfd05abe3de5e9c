"""Rewrite a selection by a one-hot mask, which takes exactly one element in each row.

y = x[F.one_hot(best, n) > 0.5, :].reshape(size)    y = torch.take_along_dim(x, best[..., None, None], -2).reshape(size)
"""

from __future__ import annotations

import ast

from dynalint.rulekit import Rewrite, k, rw
from dynalint_rules._code.calls import callee
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.names import only_value, parameters, stores
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.sharing import may_change_in_place
from dynalint_rules._shared.text import atom

_TITLE = "Take one element in each row with `torch.take_along_dim`"
_SHAPED = ("Tensor.reshape", "Tensor.view", "torch.reshape")


def taken_along(scope: Scope, node: ast.Subscript) -> Rewrite | None:
    """Return the rewrite of `x[one_hot(index) > 0, :]`, or None for any other selection."""
    mask, *others = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    index = _index_of(scope, mask)
    whole = all(isinstance(one, ast.Slice) and one.lower is one.upper is one.step is None for one in others)
    if index is None or not whole or not is_pure(scope, index):
        return None
    rest = len(others)
    place = f"{atom(index, scope.text(index))}[..., {', '.join(['None'] * (rest + 1))}]"
    taken = f"{scope.torch}.take_along_dim({scope.text(node.value)}, {place}, dim={-1 - rest})"
    outer = scope.parents.get(node)
    call = scope.parents.get(outer) if isinstance(outer, ast.Attribute) else outer
    # The elements have the same order, so only code that depends on the shape notices the difference.
    if not isinstance(call, ast.Call) or callee(scope, call) not in _SHAPED:
        taken += f".flatten(0, {-1 - rest})" if rest else ".flatten()"
    edits = rw.written(scope.file, (node, taken))
    fewer = f"{rest} fewer dimension{'s' if rest > 1 else ''} than" if rest else "as many dimensions as"
    condition = f"{scope.quote(mask)} has {fewer} {scope.quote(node.value)}"
    return Rewrite(_TITLE, "conditional", edits, (condition,), scope.imports, ranks=True)


def _index_of(scope: Scope, mask: ast.expr) -> ast.expr | None:
    """Return the index that a one-hot mask encodes, or None for any other mask."""
    if isinstance(mask, ast.Name):
        value = only_value(scope, mask.id, mask)
        index = _index_of(scope, value) if value is not None else None
        # It is computed once, and a variable with a single value still has this value.
        once = isinstance(index, ast.Name) and len(list(stores(scope, index.id))) + (index.id in parameters(scope)) == 1
        changed = once and any(may_change_in_place(scope, one.id) for one in (mask, index) if isinstance(one, ast.Name))
        return index if once and not changed else None
    encoded = mask
    if isinstance(mask, ast.Compare) and len(mask.ops) == 1 and isinstance(mask.ops[0], ast.Gt | ast.Eq):
        bound = scope.kind(mask.comparators[0])
        number = bound.constant if isinstance(bound, k.Value) else None
        wanted = (1,) if isinstance(mask.ops[0], ast.Eq) else (0, 0.5)
        encoded = mask.left if isinstance(number, int | float) and number in wanted else mask
    elif isinstance(mask, ast.Call) and isinstance(mask.func, ast.Attribute):
        encoded = mask.func.value if callee(scope, mask) == "Tensor.bool" else mask
    if not isinstance(encoded, ast.Call) or callee(scope, encoded) != "torch.nn.functional.one_hot" or not encoded.args:
        return None
    return encoded.args[0]
