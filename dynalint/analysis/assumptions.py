"""The outcomes that tests have in nearly all runs: tensors have elements, and shapes that are compared agree."""

from __future__ import annotations

import ast

from dynalint.analysis import kinds as k
from dynalint.analysis.dispatch import evaluate
from dynalint.analysis.elements import has_elements
from dynalint.analysis.frame import Frame
from dynalint.analysis.reach import returned_value

_COUNTING = ("numel", "nelement")
# The outcome of comparing a number of elements with zero, if there are some.
_FOR_SOME: dict[type[ast.cmpop], bool] = {ast.Eq: False, ast.NotEq: True, ast.Gt: True}


def assumed(frame: Frame, node: ast.expr) -> bool | None:
    """Return the outcome of an undecided test in nearly all runs, or None if no outcome is that likely."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        answer = assumed(frame, node.operand)
        return None if answer is None else not answer
    for answer in (if_shapes_agree(node), if_not_empty(frame, node)):
        if answer is not None:
            return answer
    counted = _counted(node, "len")
    if counted is None or len(counted.args) != 1 or not has_elements(evaluate(frame, counted.args[0])):
        return None
    assert isinstance(node, ast.Compare)
    return _FOR_SOME.get(type(node.ops[0]))


def if_shapes_agree(node: ast.expr) -> bool | None:
    """Return the outcome of comparing two shapes if they are equal, or None for any other test."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and all(map(_is_shape, (node.left, *node.comparators))):
        return {ast.Eq: True, ast.NotEq: False}.get(type(node.ops[0]))
    return None


def if_not_empty(frame: Frame, node: ast.expr) -> bool | None:
    """Return the outcome of testing whether a tensor is empty if it is not, or None for any other test.

    The test may be the whole body of a function: `is_empty(t)`.
    """
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        callee = evaluate(frame, node.func)
        asked = returned_value(callee.function) if isinstance(callee, k.Function) else None
        return None if asked is None else _if_counted(asked)
    return _if_counted(node)


def _if_counted(node: ast.expr) -> bool | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _COUNTING:
        return True
    if _counted(node, *_COUNTING) is None:
        return None
    assert isinstance(node, ast.Compare)
    return _FOR_SOME.get(type(node.ops[0]))


def _counted(node: ast.expr, *names: str) -> ast.Call | None:
    """The call of one of these functions or methods if a test compares its result with zero."""
    if not (isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.left, ast.Call)):
        return None
    other, counted = node.comparators[0], node.left.func
    name = counted.attr if isinstance(counted, ast.Attribute) else counted.id if isinstance(counted, ast.Name) else ""
    zero = isinstance(other, ast.Constant) and type(other.value) is int and other.value == 0
    return node.left if zero and name in names else None


def _is_shape(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and not node.args and not node.keywords:
        return isinstance(node.func, ast.Attribute) and node.func.attr == "size"
    return isinstance(node, ast.Attribute) and node.attr == "shape"
