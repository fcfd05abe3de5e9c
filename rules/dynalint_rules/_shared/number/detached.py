"""What stands for the number in a tensor, or for the list of its numbers, without being read out of it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint.rulekit import Refusal, k, walk_function
from dynalint_rules._code.calls import callee
from dynalint_rules._code.memory import makes_tensor
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.text import atom

# Their result shares no memory with the tensor they are called on.
_FRESH = frozenset(
    "sum mean prod max min amax amin norm std var median mode argmax argmin any all count_nonzero logsumexp nansum "
    "nanmean abs exp log sqrt square pow add sub mul div".split()
)


def is_folded(tensor: k.Tensor) -> bool:
    """Whether Dynamo knows the number in an array: what a ufunc of NumPy gives for Python numbers, no reduction."""
    return tensor.array and tensor.foreseen and tensor.dtype == "float"


def is_stored_number(tensor: k.Tensor) -> bool:
    """Whether this is a number of NumPy, or an array of one, that was in an attribute before the call.

    Dynamo takes the number as it was when it traced. It knows nothing of what is computed from it.
    """
    return tensor.array and tensor.origin == "attribute" and tensor.rank in (0, None)


@dataclass(frozen=True)
class Detached:
    """`text` reads a tensor as a 0-dim tensor without gradient; `conditions` say when that is the number's value."""

    text: str
    conditions: tuple[str, ...]


def detached(scope: Scope, source: ast.expr, text: str | None = None, *, read: ast.expr | None = None) -> Detached:
    """Return what stands for the number in the one element of `source`; `text` is that of the source if it has one.

    `read` is the expression that reads the number, if what stands around that is to stay. What stands for an array of
    NumPy goes around its text, so that must not be left to the caller (`text` is empty).

    Raises:
        Refusal: `source` is not always a torch tensor, or always an array.
    """
    tensor = k.only_tensor(scope.kind(source))
    shown = scope.quote(source)
    if tensor is None:
        raise Refusal(f"{shown} is not always a tensor; handle the other case before this line")
    conditions = [f"{shown} is on the CPU or on the same device as the tensors it is combined with"]
    if tensor.array:
        if text == "":
            raise Refusal(f"{shown} is a NumPy array, which has no `.detach()`; compute with tensors instead")
        # It has no gradient, and is on the CPU.
        text, conditions = f"{scope.torch}.as_tensor({scope.text(source) if text is None else text})", []
    else:
        text = atom(source, scope.text(source)) if text is None else text
    at_once = read is not None and _is_used_up(scope, read)
    # Whole numbers have no gradient, but may be told apart from the tensor itself where something else holds that.
    plain = tensor.dtype in ("bool", "int") and read is not None and (at_once or _is_fresh(scope, source))
    if not tensor.array and not plain:
        text += ".detach()"
    stays = tensor.origin == "parameter" and not _is_changed(scope, source)
    if not (at_once or stays or _is_fresh(scope, source)):
        # A number is a copy; a detached tensor shares memory and would follow later changes in place.
        text += ".clone()"
    if tensor.rank is None:
        conditions.insert(0, f"{shown} has no dimensions")
    elif tensor.rank > 0:
        text += ".reshape(())"
    return Detached(text, tuple(conditions))


def _is_used_up(scope: Scope, read: ast.expr) -> bool:
    """Whether what is read only goes into a tensor of its own: what meets tensors, autograd may keep for later."""
    parent = scope.parents[read]
    if not isinstance(parent, ast.BinOp):
        return isinstance(parent, ast.Compare)
    return k.is_number(scope.kind(parent.right if parent.left is read else parent.left))


def rows_of(scope: Scope, source: ast.expr) -> Detached:
    """Return what stands for a list of the numbers in `source`, to be put after the text of `source` itself."""
    tensor = k.only_tensor(scope.kind(source))
    shown = scope.quote(source)
    conditions = [f"{shown} is on the CPU or on the same device as the tensors it is combined with"]
    if tensor is None or tensor.rank != 1:
        conditions.insert(0, f"{shown} has one dimension")
    return Detached(".detach()" if _is_fresh(scope, source) else ".detach().clone()", tuple(conditions))


def _is_fresh(scope: Scope, node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp | ast.Compare):
        return True
    if isinstance(node, ast.Call):
        return callee(scope, node).rpartition(".")[2] in _FRESH or makes_tensor(scope, node)
    return False


def _is_changed(scope: Scope, source: ast.expr) -> bool:
    """Whether a function spells a change in place of what an expression reads: `+=`, a store into it, `t.add_(...)`."""
    text = ast.unparse(source)
    for node in walk_function(scope.function.node):
        stored = isinstance(node, ast.Attribute | ast.Name | ast.Subscript) and not isinstance(node.ctx, ast.Load)
        target = node.value if isinstance(node, ast.Subscript) else node
        called = node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        if called is not None and called.attr.endswith("_"):
            stored, target = True, called.value
        if stored and ast.unparse(target).startswith(text):
            return True
    return False
