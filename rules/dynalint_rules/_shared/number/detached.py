"""Replacements for a tensor's number, or for the list of its numbers, that do not read the tensor."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint.rulekit import Refusal, k, walk_function
from dynalint_rules._code.calls import callee
from dynalint_rules._code.memory import changed_in_place, is_own, makes_tensor
from dynalint_rules._code.names import end_of, loads, only_value, statement_of
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.sharing import may_change_in_place
from dynalint_rules._shared.number.takers import COMPARING, EXTREMES
from dynalint_rules._shared.text import atom

# Methods whose results do not share memory with the receiver.
_FRESH = frozenset(
    "sum mean prod max min amax amin norm std var median mode argmax argmin any all count_nonzero logsumexp nansum "
    "nanmean abs exp log sqrt square pow add sub mul div percentile quantile".split()
)


@dataclass(frozen=True)
class Detached:
    """The `text` of a 0-dim tensor without gradients, and the `conditions` under which it equals the number."""

    text: str
    conditions: tuple[str, ...]


def detached(scope: Scope, source: ast.expr, *, read: ast.expr | None = None, whole: bool = False) -> Detached:
    """Return the replacement for the number in `source`, which has a single element.

    `read` is the expression that reads the number, if the code around it stays. If `whole` is true, `.long()` follows,
    unless the tensor has integers. Its result has no gradient, and is a copy of a tensor with any other dtype.

    Raises: Refusal: Unless `source` is always a torch tensor or always an array.
    """
    tensor = k.only_tensor(scope.kind(source))
    shown = scope.quote(source)
    if tensor is None:
        raise Refusal(f"{shown} is not always a tensor; handle the other case before this line")
    conditions = [f"{shown} is on the CPU, or on the same device as the tensors that it is combined with"]
    text, methods = scope.text(source), ""
    if tensor.array:
        # An array has no gradient and is on the CPU.
        text, conditions = f"{scope.torch}.as_tensor({text})", []
    compared = read is not None and _is_compared(scope, read)  # the result has no gradient
    at_once = compared or (read is not None and _is_used_up(scope, read))
    # Integers have no gradient.
    plain = read is not None and (tensor.dtype in ("bool", "int") or compared)
    if not tensor.array and not plain and not whole and not is_detached(scope, source):
        methods += ".detach()"
    stays = tensor.origin == "parameter" and not _is_changed(source, scope.function.node)
    # Autograd saves neither of these, so the tensor can be changed as soon as it has been used.
    if not (
        at_once
        or stays
        or _is_fresh(scope, source)
        or _is_unchanged(scope, source)
        or (whole and tensor.dtype == "float")
    ):
        # A number is a copy. A detached tensor shares memory, so later in-place changes would affect it.
        methods += ".clone()"
    if tensor.rank is None:
        conditions.insert(0, f"{shown} has no dimensions")
    elif tensor.rank > 0:
        methods += ".reshape(())"
    if methods and not tensor.array:
        text = atom(source, text)
    return Detached(text + methods, tuple(conditions))


def is_detached(scope: Scope, node: ast.expr) -> bool:
    """Return whether an expression certainly has no gradient, because it is computed from nothing that has one.

    Tensors of integers and bools have none, and neither has what starts with `.detach()` or `.data`.
    """
    if scope.dtype(node) in ("bool", "int"):
        return True
    if isinstance(node, ast.Attribute):  # other objects have an attribute `data` too
        return node.attr == "data" and scope.tensor(node.value) is not None
    if isinstance(node, ast.Name):
        value = only_value(scope, node.id, node)
        if value is None or end_of(value) > (node.lineno, node.col_offset) or may_change_in_place(scope, node.id):
            return False
        return is_detached(scope, value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = callee(scope, node)
        if node.func.attr == "detach":
            return True
        if not name.startswith(("torch.", "Tensor.")) or name.endswith(".forward"):
            return False
        parts = [*node.args, *(one.value for one in node.keywords)]
        if not name.startswith("torch.") or not parts:
            parts.append(node.func.value)
    elif isinstance(node, ast.BinOp):
        parts = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp):
        parts = [node.operand]
    else:
        return False
    tensors = [one for one in parts if not k.is_number(scope.kind(one))]
    return bool(tensors) and all(is_detached(scope, one) for one in tensors)


def _is_compared(scope: Scope, read: ast.expr) -> bool:
    """Return whether a number is only compared with another value."""
    parent = scope.parents[read]
    parent = scope.parents[parent] if isinstance(parent, ast.keyword) else parent
    return isinstance(parent, ast.Compare) or (isinstance(parent, ast.Call) and callee(scope, parent) in COMPARING)


def _is_used_up(scope: Scope, read: ast.expr) -> bool:
    """Return whether the value is only used to create a tensor. Autograd may save a value combined with tensors."""
    parent = scope.parents[read]
    if isinstance(parent, ast.Call):
        name = callee(scope, parent)
        return name in ("torch.where", "torch.full") or (name in EXTREMES and len(parent.args) == 2)
    if not isinstance(parent, ast.BinOp):
        return False
    return k.is_number(scope.kind(parent.right if parent.left is read else parent.left))


def _is_fresh(scope: Scope, node: ast.expr) -> bool:
    """Return whether nothing changes the tensor later, because it is new."""
    if isinstance(node, ast.BinOp | ast.Compare):
        return True
    if isinstance(node, ast.Call):
        return callee(scope, node).rpartition(".")[2] in _FRESH or makes_tensor(scope, node)
    return False


def _is_unchanged(scope: Scope, source: ast.expr) -> bool:
    """Return whether a variable holds a tensor of this function that no code changes, here or in a caller.

    The same then holds for an element of it.
    """
    while isinstance(source, ast.Subscript) and scope.tensor(source.value) is not None:
        source = source.value
    if not isinstance(source, ast.Name) or not is_own(scope, source.id, statement_of(scope, source)):
        return False
    computed = all(_is_computed_with(scope, one) for one in loads(scope, source.id))
    return computed and changed_in_place(scope, source.id) is None


def _is_computed_with(scope: Scope, read: ast.expr) -> bool:
    """Return whether a use of a tensor keeps no other reference to it."""
    parent = scope.parents[read]
    if isinstance(parent, ast.Subscript) and parent.value is read:
        return isinstance(parent.ctx, ast.Load) and (
            isinstance(parent.slice, ast.List) or _is_computed_with(scope, parent)
        )
    if isinstance(parent, ast.Attribute):
        return parent.attr in _FRESH or parent.attr in ("item", "backward", "dtype", "device", "shape")
    return isinstance(parent, ast.BinOp | ast.Compare | ast.UnaryOp)


def _is_changed(source: ast.expr, code: ast.AST) -> bool:
    """Return whether code changes a tensor that an expression reads, with `+=`, a store, or `t.add_(...)`."""
    text = ast.unparse(source)
    for node in walk_function(code):
        stored = isinstance(node, ast.Attribute | ast.Name | ast.Subscript) and not isinstance(node.ctx, ast.Load)
        target = node.value if isinstance(node, ast.Subscript) else node
        called = node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        if called is not None and called.attr.endswith("_"):
            stored, target = True, called.value
        if stored and ast.unparse(target).startswith(text):
            return True
    return False
