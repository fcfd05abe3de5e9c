"""Quotients by the number of selected elements, which need no test if the count is clamped.

if valid.sum() == 0:                    return torch.where(valid, loss, 0).sum() / valid.sum().clamp(min=1)
    return loss.sum() * 0
return loss[valid].sum() / valid.sum()
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dynalint.rulekit import k
from dynalint_rules._code.calls import callee
from dynalint_rules._code.names import only_value
from dynalint_rules._code.scope import Scope

NOTHING_COUNTED = "is zero if nothing is counted"
_CONVERSIONS = frozenset({"float", "double", "half", "int", "long", "to", "type", "type_as", "detach", "item"})
# Comparisons of a count that tell whether anything is counted.
_NOTHING = frozenset({(ast.Gt, 0), (ast.NotEq, 0), (ast.Eq, 0), (ast.LtE, 0), (ast.GtE, 1), (ast.Lt, 1)})
_ZEROS = frozenset({"torch.zeros", "torch.tensor", "torch.as_tensor", "Tensor.new_zeros", "Tensor.new_tensor"})


def is_count(scope: Scope, node: ast.expr) -> bool:
    """Return whether an expression is a number of selected elements: the sum of a bool tensor, in any dtype."""
    return _counted(scope, node) is not None


def _counted_by(scope: Scope, test: ast.expr) -> ast.expr | None:
    """Return the mask if a test is only about whether it selects anything, as in `m.any()`, `n > 0` or `n == 0`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _counted_by(scope, test.operand)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.comparators[0], ast.Constant):
        asked = (type(test.ops[0]), test.comparators[0].value)
        return _counted(scope, test.left) if asked in _NOTHING else None
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) and callee(scope, test) == "Tensor.any":
        return _converted(scope, test.func.value) if not test.args and not test.keywords else None
    return _counted(scope, test)


def _counted(scope: Scope, node: ast.expr) -> ast.expr | None:
    """Return the mask whose selected elements an expression counts, or None."""
    node = _converted(scope, node)
    if not isinstance(node, ast.Call):
        return None
    name = callee(scope, node)
    if isinstance(node.func, ast.Attribute) and name in ("Tensor.sum", "Tensor.count_nonzero"):
        counted = node.func.value
    elif name in ("torch.sum", "torch.count_nonzero") and node.args:
        counted = node.args[0]
    else:
        return None
    mask = _converted(scope, counted)
    tensor = scope.tensor(mask)
    return mask if tensor is not None and tensor.dtype == "bool" else None


def needs_no_test(scope: Scope, test: ast.expr, values: Sequence[ast.expr | None]) -> tuple[int, str] | None:
    """Return which of two values is right for both sides of a test if its count is clamped, and the condition for it.

    The test is whether anything is counted. The other value is zero, or the same numerator, or None if a name keeps its
    value, which is never right.
    """
    counted = None if scope.careful else _counted_by(scope, test)
    if counted is None:
        return None
    for index, (value, other) in enumerate([(values[0], values[1]), (values[1], values[0])]):
        if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Div) or other is None:
            continue
        same = (mask := _counted(scope, value.right)) is not None and ast.dump(mask) == ast.dump(counted)
        if same and (_is_zero(scope, other) or ast.dump(other) == ast.dump(value.left)):
            return index, f"{scope.quote(value.left)} {NOTHING_COUNTED}"
    return None


def _converted(scope: Scope, node: ast.expr) -> ast.expr:
    """Return the expression that a value with the same elements was converted from."""
    while True:
        if isinstance(node, ast.Name) and (value := only_value(scope, node.id, node)) is not None:
            node = value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CONVERSIONS:
            if not isinstance(scope.kind(node.func), k.Method):
                return node
            node = node.func.value
        else:
            return node


def _is_zero(scope: Scope, node: ast.expr) -> bool:
    """Return whether an expression is a zero without dimensions: `0.0`, `x.sum() * 0` or `torch.tensor(0.0)`."""
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float) and node.value == 0
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        tensor = scope.tensor(node)
        return tensor is not None and tensor.rank == 0 and (_is_zero(scope, node.left) or _is_zero(scope, node.right))
    if not isinstance(node, ast.Call) or callee(scope, node) not in _ZEROS or len(node.args) != 1:
        return False
    given = node.args[0]
    return _is_zero(scope, given) or (isinstance(given, ast.Tuple | ast.List) and not given.elts)
