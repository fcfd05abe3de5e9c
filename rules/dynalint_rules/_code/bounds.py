"""What the code around a position in a tensor shows about it: its sign, and the device of the tensor."""

from __future__ import annotations

import ast

from dynalint_rules._code.calls import callee
from dynalint_rules._code.names import last_value, loads, only_value
from dynalint_rules._code.scope import Scope

_DEEPEST = 6
# Calls that keep the sign of their argument, or that of the tensor.
_KEEPING = frozenset({"int", "float", "item", "long", "reshape", "round", "floor", "ceil", "clone", "detach", "to"})
_FACTORIES = frozenset(f"torch.{name}" for name in "zeros ones full empty arange rand randn randint tensor".split())


def may_be_negative(scope: Scope, node: ast.expr, depth: int = 0) -> bool:
    """Return whether a position is computed with a difference, or a negative number, that no bound keeps positive.

    A product with a random number from 0 to 1 counts as positive, because it is the difference of two sizes.
    """
    if depth > _DEEPEST:
        return True
    if isinstance(node, ast.Name):
        found = last_value(scope, node.id, node)
        return found is not None and may_be_negative(scope, found[1], depth + 1)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) or may_be_negative(scope, node.operand, depth + 1)
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right)
        drawn = any(isinstance(one, ast.Call) and callee(scope, one) == "torch.rand" for one in sides)
        if isinstance(node.op, ast.Mult) and drawn:
            return False
        return isinstance(node.op, ast.Sub) or any(may_be_negative(scope, one, depth + 1) for one in sides)
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name == "min":
        return any(may_be_negative(scope, one, depth + 1) for one in node.args)
    operand = node.func.value if isinstance(node.func, ast.Attribute) else next(iter(node.args), None)
    return name in _KEEPING and operand is not None and may_be_negative(scope, operand, depth + 1)


def is_made_on_default_device(scope: Scope, node: ast.expr) -> bool:
    """Return whether a tensor is created without a device, and may be on another one than the data.

    It is on the same one if the function does nothing but compute with it and the data.
    """
    while isinstance(node, ast.Subscript):
        node = node.value
    if not isinstance(node, ast.Name):
        return False
    made = only_value(scope, node.id, node)
    if made is None and (found := last_value(scope, node.id, node)) is not None:
        made = found[1]
    if not isinstance(made, ast.Call) or callee(scope, made) not in _FACTORIES:
        return False
    if any(one.arg in ("device", None) for one in made.keywords):
        return False
    return not all(_is_combined(scope, one) for one in loads(scope, node.id))


def _is_combined(scope: Scope, read: ast.Name) -> bool:
    """Return whether a use of a tensor is an operation with other tensors, which are on the same device, or a store."""
    parent = scope.parents.get(read)
    if isinstance(parent, ast.Attribute):
        return parent.attr in ("shape", "size", "device", "dtype")
    stores = isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store)
    return stores or isinstance(parent, ast.BinOp | ast.Compare)
