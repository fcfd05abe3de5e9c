"""Dense matrices in the place of sparse ones that are made and used up in one function.

adjacency = torch.sparse_coo_tensor(edges, weights, (n, n))
return torch.sparse.mm(adjacency, x)

adjacency = weights.new_zeros((n, n)).index_put(edges.unbind(), weights, accumulate=True)
return torch.mm(adjacency, x)
"""

from __future__ import annotations

import ast

from dynalint.analysis.events import Call
from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.names import reads
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.text import atom

_PRODUCTS = frozenset({"torch.sparse.mm", "torch.mm", "torch.matmul", "Tensor.mm", "Tensor.matmul"})
_BY_COORDINATES = frozenset({"torch.sparse_coo_tensor", "torch.sparse.FloatTensor", "torch.sparse.DoubleTensor"})
_PRODUCT = (
    "the matrix is kept with all its zeros, which takes more memory and time",
    "elements that are zero take part in products with NaN and infinity",
)
_CONVERTED = ("elements that are zero get gradients as well", "the matrix is no copy")
_SUMMED = (
    "the positions are whole numbers of 64 bits, and none is negative",
    "what adds up at one position is equal up to rounding",
)


def kept_dense(scope: Scope, event: Call) -> Rewrite:
    """Keep a matrix dense of which products are taken, or that is made dense again.

    Raises:
        Refusal: something else is done with it.
    """
    node = event.node
    edits: dict[ast.expr, str] = {node: _dense(scope, event)}
    products = False
    for use in reads(scope, node, "the sparse tensor is kept"):
        parent = scope.parents[use]
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.MatMult) and parent.left is use:
            products = True
        elif isinstance(parent, ast.Call) and use in parent.args[:1] and callee(scope, parent) in _PRODUCTS:
            products = True
            if callee(scope, parent) == "torch.sparse.mm":
                edits[parent.func] = f"{scope.torch}.mm"
        elif (called := _called(scope, parent, "to_dense")) is not None:
            edits[called] = edits.pop(use, "") or scope.text(use)
        elif _called(scope, parent, "mm", "matmul") is not None:
            products = True
        else:
            raise Refusal(f"{scope.quote(use)} is used as a sparse tensor elsewhere")
    made = _SUMMED if event.callee in _BY_COORDINATES else _CONVERTED
    conditions = (*made, *(_PRODUCT if products else ()))
    replacements = tuple(Replacement(scope.file, *scope.file.span(one), text) for one, text in edits.items())
    return Rewrite("Keep the matrix dense", "unsafe", replacements, conditions, scope.imports)


def _dense(scope: Scope, event: Call) -> str:
    """Return an expression for the dense matrix.

    Raises:
        Refusal: what it is made of is not known.
    """
    node, function = event.node, event.node.func
    if event.callee == "Tensor.to_sparse" and isinstance(function, ast.Attribute) and not (node.args or node.keywords):
        return atom(function.value, scope.text(function.value))
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    parts = [*node.args, *([given.pop("size")] if "size" in given else [])]
    if event.callee not in _BY_COORDINATES or given or len(parts) != 3:
        raise Refusal("it is made in another way")
    positions, values, size = parts
    made, kept = scope.tensor(positions), scope.tensor(values)
    if made is None or kept is None or made.dtype not in ("int", None):
        raise Refusal("what it is made of may be no tensors")
    held = scope.text(values)
    return (
        f"{atom(values, held)}.new_zeros({scope.text(size)})"
        f".index_put({atom(positions, scope.text(positions))}.unbind(), {held}, accumulate=True)"
    )


def _called(scope: Scope, attribute: ast.AST, *names: str) -> ast.Call | None:
    """Return the call of an attribute, if that is a method of one of these names, and is given no keywords."""
    call = scope.parents[attribute]
    if not isinstance(attribute, ast.Attribute) or attribute.attr not in names:
        return None
    return call if isinstance(call, ast.Call) and call.func is attribute and not call.keywords else None
