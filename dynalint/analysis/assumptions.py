"""The outcomes that tests have in nearly all runs: tensors have elements, and shapes that are compared agree."""

from __future__ import annotations

import ast
from collections.abc import Callable

from dynalint.analysis import kinds as k
from dynalint.analysis.dispatch import evaluate
from dynalint.analysis.elements import has_elements
from dynalint.analysis.frame import Frame
from dynalint.analysis.reach import returned_value
from dynalint.analysis.steps import walk

_COUNTING = ("numel", "nelement")
_NOT_FLOATS = frozenset({"bool", "uint8", "int8", "short", "int16", "int", "int32", "long", "int64"})
# The outcome of comparing a number of elements with zero, if there are some.
_FOR_SOME: dict[type[ast.cmpop], bool] = {ast.Eq: False, ast.NotEq: True, ast.Gt: True}
# The outcome of comparing a dimension with a constant, if the dimension is greater than one.
_FOR_NONE: dict[tuple[type[ast.cmpop], int], bool] = {
    (ast.Gt, 0): True,
    (ast.GtE, 1): True,
    (ast.NotEq, 0): True,
    (ast.Eq, 0): False,
    (ast.LtE, 0): False,
    (ast.Lt, 1): False,
}
_FOR_ONE: dict[tuple[type[ast.cmpop], int], bool] = {
    (ast.Gt, 1): True,
    (ast.GtE, 2): True,
    (ast.NotEq, 1): True,
    (ast.Eq, 1): False,
    (ast.LtE, 1): False,
    (ast.Lt, 2): False,
}


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
        if not isinstance(callee, k.Function):
            return None
        frame.interpreter.project.asked.add((returned_value, callee.function))
        asked = returned_value(callee.function)
        return None if asked is None else _if_counted(asked)
    return _if_counted(node)


def if_large(frame: Frame, node: ast.expr) -> bool | None:
    """Return the outcome of a test whether a dimension is 0 or 1 if it is greater, or None for any other test.

    The outcome of a test whether a tensor holds floats is given if it does. A parameter that holds a size may also be
    a difference of sizes, which is often 0 but seldom compared with 1.
    """
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        answer = if_large(frame, node.operand)
        return None if answer is None else not answer
    if not isinstance(node, ast.Compare):
        return True if _asks_for_floats(node) or _is_dimension(frame, node) else None
    other = node.comparators[0]
    if len(node.ops) == 1 and _is_dtype_of(node.left) and getattr(other, "attr", "") in _NOT_FLOATS:
        return {ast.Eq: False, ast.NotEq: True}.get(type(node.ops[0]))
    if len(node.ops) > 1 or not isinstance(other, ast.Constant) or type(other.value) is not int:
        return None
    key = (type(node.ops[0]), other.value)
    if key in _FOR_ONE:
        return _FOR_ONE[key] if _is_dimension(frame, node.left) or _is_passed(frame, node.left) else None
    return _FOR_NONE[key] if key in _FOR_NONE and _is_dimension(frame, node.left) else None


def _asks_for_floats(node: ast.expr) -> bool:
    asked = node.func if isinstance(node, ast.Call) else node
    return isinstance(asked, ast.Attribute) and asked.attr == "is_floating_point"


def _is_dtype_of(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "dtype"


def _is_dimension(frame: Frame, node: ast.expr) -> bool:
    """Return whether an expression is a dimension of a tensor, or a variable that only ever holds one."""
    if not isinstance(node, ast.Name):
        return _measures(node) and evaluate(frame, node) == k.SIZE
    if frame.function is None or frame.env.get(node.id) != k.SIZE:
        return False
    nodes = list(walk(frame.function.node))
    values = [one.value for one in nodes if isinstance(one, ast.Assign) and _takes_size(one, node.id)]
    return len(values) == 1 and sum(map(_binds(node.id), nodes)) == 1


def _is_passed(frame: Frame, node: ast.expr) -> bool:
    """Return whether an expression is a parameter that holds a size and is never assigned."""
    if not isinstance(node, ast.Name) or frame.function is None or frame.context is None:
        return False
    given = frame.context.params.get(node.id) == k.SIZE
    return given and not any(map(_binds(node.id), walk(frame.function.node)))


def _binds(name: str) -> Callable[[ast.AST], bool]:
    return lambda one: isinstance(one, ast.Name) and one.id == name and not isinstance(one.ctx, ast.Load)


def _takes_size(statement: ast.Assign, name: str) -> bool:
    """Return whether a variable takes a dimension by itself, or one of those that a shape is unpacked into."""
    for target in statement.targets:
        if isinstance(target, ast.Name) and target.id == name:
            return _measures(statement.value)
        if isinstance(target, ast.Tuple) and any(map(_binds(name), target.elts)):
            shape = statement.value
            if isinstance(shape, ast.Subscript) and isinstance(shape.slice, ast.Slice):
                shape = shape.value
            return _is_shape(shape)
    return False


def _measures(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return _is_shape(node.value)
    if not isinstance(node, ast.Call) or len(node.args) != 1:
        return False
    called = node.func
    return called.id == "len" if isinstance(called, ast.Name) else getattr(called, "attr", "") == "size"


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
