"""Arithmetic of Python's numbers, which is done in double precision, with 0-dim tensors of doubles.

    weight = pos.sum().item() + 1e-12       weight = pos.sum().detach().double() + 1e-12

A sum, difference, product or quotient of doubles is the same in torch as in Python, except that Python raises where it
divides by zero. What comes out meets tensors as the number did, as long as their own precision is that of a float or a
double: in a tensor of more dimensions it never changes the dtype, and for one without it is converted first.
"""

from __future__ import annotations

import ast
import math

from dynalint.analysis import kinds as k
from dynalint.analysis.index import walk_function
from dynalint.rules import Replacement
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.known_numbers import is_whole
from dynalint_rules._shared.precision import Class, is_nonzero, is_short
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.text import atom

_POSTFIX = (ast.Name, ast.Call, ast.Attribute, ast.Subscript)
_EXACT = (ast.Add, ast.Sub, ast.Mult, ast.Div)
# Their result has the dtype of what they are given, if that is a floating one.
_KEEPING = frozenset("sum mean prod max min amax amin abs square sqrt exp log pow clamp detach clone".split())


def converted(scope: Scope, node: ast.expr, text: str) -> list[Replacement]:
    """Put `.method()` behind an expression, and parentheses around it where it has none but needs them."""
    start, end = scope.file.span(node)
    if isinstance(node, _POSTFIX):
        return [Replacement(scope.file, end, end, text)]
    if is_enclosed(scope, node):
        return [Replacement(scope.file, end + 1, end + 1, text)]
    return [Replacement(scope.file, start, start, "("), Replacement(scope.file, end, end, f"){text}")]


def is_enclosed(scope: Scope, node: ast.expr) -> bool:
    """Whether an expression stands in parentheses that are its own, right around it."""
    start, end = scope.file.span(node)
    around = scope.file.text[max(start - 1, 0) : start] + scope.file.text[end : end + 1]
    return around == "()" and isinstance(scope.parents[node], ast.BinOp | ast.UnaryOp | ast.Assign | ast.AugAssign)


def operands(
    scope: Scope, operation: ast.BinOp, node: ast.expr, dtype: Class, positive: bool
) -> tuple[list[Replacement], list[str]]:
    """Return the edits and conditions by which the operation of a read number with another gives what Python does.

    `dtype` is "double" if the tensor that stands for `node` is one already, `positive` tells that it is above zero.

    Raises:
        Refusal: there is no such form.
    """
    other = operation.right if node is operation.left else operation.left
    shown = scope.quote(operation)
    kind = scope.kind(other)
    real = all(isinstance(one, k.Value) and one.type in ("bool", "int", "float") for one in kind.members)
    sized = isinstance(kind, k.Unknown) and _is_size(scope, other)
    if not isinstance(operation.op, _EXACT) or not (real or sized) or dtype in ("bool", "complex"):
        raise Refusal(f"{shown} is not the same in tensors of doubles; rewrite it by hand")
    conditions = [f"{scope.quote(other)} is a whole number"] if sized else []
    if isinstance(operation.op, ast.Div):
        if node is operation.right and not _is_power_of_two(scope.kind(other)):
            raise Refusal(f"{shown} is a product with a reciprocal where the divisor is a tensor; divide by hand")
        if not (positive if node is operation.right else is_nonzero(scope.kind(other))):
            conditions.append(f"{scope.quote(operation.right)} is not zero in {shown}")
    if dtype == "double":
        return [], conditions
    conditions.append(f"the device of {scope.quote(node)} has doubles, as all but Apple's MPS do")
    if dtype != "float":
        conditions.append(f"{scope.quote(node)} is a floating-point number, or below 2**53")
    return converted(scope, node, ".double()"), conditions


def meeting(scope: Scope, tensor: k.Tensor, node: ast.expr, other: ast.expr) -> tuple[list[Replacement], list[str]]:
    """Return the edits and conditions by which a 0-dim tensor of doubles does to the tensor `other` what a number does.

    Raises:
        Refusal: nothing in the code has the dtype that the result is to have.
    """
    if tensor.dtype not in ("float", None):
        raise Refusal(f"{scope.quote(other)} would become a tensor of doubles; convert the number by hand")
    conditions = [f"{scope.quote(other)} is of float32 or float64"]
    if tensor.rank:
        return [], conditions
    witness = _witness(scope, other)
    if witness is None and tensor.rank is None:
        return [], [*conditions, f"{scope.quote(other)} has dimensions"]
    if witness is None:
        raise Refusal(f"the dtype of {scope.quote(other)} has no name here; convert the number to it by hand")
    return converted(scope, node, f".to({scope.text(witness)}.dtype)"), conditions


def _is_size(scope: Scope, node: ast.expr) -> bool:
    """Whether an expression of unknown kind reads a size, or is a name for one."""
    if isinstance(node, ast.Name) and node.id in scope.function.locals:
        stores = [one for one in walk_function(scope.function.node) if isinstance(one, ast.Name) and one.id == node.id]
        bound = [scope.parents[one] for one in stores if isinstance(one.ctx, ast.Store)]
        node = bound[0].value if len(bound) == 1 and isinstance(bound[0], ast.Assign) else node
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("size", "numel")


def _witness(scope: Scope, node: ast.expr) -> ast.expr | None:
    """Return a name for a tensor that has the dtype of `node`, if that is a floating one."""
    if isinstance(node, ast.Name | ast.Attribute):
        return node
    if isinstance(node, ast.Subscript):
        return _witness(scope, node.value) if scope.tensor(node.value) is not None else None
    if isinstance(node, ast.Call) and callee(scope, node).rpartition(".")[2] in _KEEPING:
        method = isinstance(node.func, ast.Attribute) and scope.tensor(node.func.value) is not None
        source = next(iter(node.args), None)
        if method and isinstance(node.func, ast.Attribute):
            source = node.func.value
        plain = all(is_whole(scope.kind(one)) for one in node.args[0 if method else 1 :])
        keywords = all(one.arg in ("dim", "keepdim") for one in node.keywords)
        if source is not None and plain and keywords and scope.tensor(source) is not None:
            return _witness(scope, source)
    if isinstance(node, ast.BinOp):
        for tensor, number in ((node.left, node.right), (node.right, node.left)):
            if scope.tensor(tensor) is not None and k.is_number(scope.kind(number)):
                return _witness(scope, tensor)
    return None


def bounded(scope: Scope, call: ast.Call, node: ast.expr, dtype: Class) -> tuple[list[Replacement], Class, bool]:
    """Return `max(t, 1)` as `t.clamp(min=1)`, what its dtype is, and whether it is above zero.

    `max(1, t)` is 1 where `t` is NaN, which a clamp would keep.

    Raises:
        Refusal: there are other arguments, or more.
    """
    function = callee(scope, call).rpartition(".")[2]
    others = [argument for argument in call.args if argument is not node]
    if len(others) != 1 or not isinstance(node, _POSTFIX):
        raise Refusal(f"{scope.quote(call)} has no form of its own in tensors; use `torch.clamp` by hand")
    kind = scope.kind(others[0])
    known = isinstance(kind, k.Value) and kind.constant is not k.MISSING and bool(kind.constant)
    start, end = scope.file.span(call)
    inner_start, inner_end = scope.file.span(node)
    around = scope.file.text[start:inner_start] + scope.file.text[inner_end:end]
    if not known or not isinstance(kind, k.Value) or "#" in around or "\n" in around or dtype == "bool":
        raise Refusal(f"{scope.quote(others[0])} is not known here; use `torch.clamp` by hand")
    bound = "min" if function == "max" else "max"
    whole = isinstance(kind.constant, int) or float(kind.constant).is_integer()
    value = scope.text(others[0])
    kept: Class
    if dtype == "int" and whole:
        kept, value = "int", repr(int(kind.constant))
    elif dtype == "float" and is_short(kind):
        kept = "float"
    else:
        kept = "double"
    double = ".double()" if kept == "double" and dtype != "double" else ""
    kept_infinity = f"{scope.torch}.inf" if bound == "min" else f"neginf=-{scope.torch}.inf"
    number = "" if call.args[0] is node or dtype == "int" else f".nan_to_num({value}, {kept_infinity})"
    edits = [
        Replacement(scope.file, start, inner_start, ""),
        Replacement(scope.file, inner_end, end, f"{double}.clamp({bound}={value}){number}"),
    ]
    return edits, kept, function == "max" and float(kind.constant) > 0


def divided(scope: Scope, operation: ast.BinOp, node: ast.expr, *, enclose: bool) -> list[Replacement]:
    """Return the edits for a number divided by a tensor, which torch computes as a product with the reciprocal.

    With `enclose` the number gets parentheses where it needs them.

    Raises:
        Refusal: there is more in between than the operator.
    """
    divisor = operation.right
    start, end = scope.file.span(operation)
    stop = scope.file.span(node)[1] + is_enclosed(scope, node)
    between = scope.file.text[stop : scope.file.span(divisor)[0]]
    if between.strip() not in ("/", "/ (", "/("):
        raise Refusal(f"{scope.quote(operation)} is spread out; multiply with `.reciprocal()` by hand")
    bare = enclose and isinstance(node, ast.BinOp) and not is_enclosed(scope, node)
    front = f"{atom(divisor, scope.text(divisor))}.reciprocal() * {'(' * bare}"
    return [Replacement(scope.file, start, start, front), Replacement(scope.file, stop, end, ")" * bare)]


def _is_power_of_two(kind: k.Kind) -> bool:
    """Whether a number is known, and its product with what is rounded is rounded in the same way."""
    known = kind.constant if isinstance(kind, k.Value) else None
    return isinstance(known, int | float) and abs(math.frexp(known)[0]) == 0.5
