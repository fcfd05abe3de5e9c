"""Operators that are calls of methods of the project, and comparisons of containers item by item."""

from __future__ import annotations

import ast

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Operation
from dynalint.analysis.frame import Frame
from dynalint.analysis.functions import call_function
from dynalint.analysis.kinds import Kind

_NAMES: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
}
_UNARY: dict[type[ast.AST], str] = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}


def method_name(operator: ast.operator | ast.unaryop, *, reflected: bool = False) -> str:
    """Return the name of the method behind an operator: `__mul__`, `__rmul__`, `__invert__`."""
    name = _UNARY[type(operator)] if isinstance(operator, ast.unaryop) else _NAMES[type(operator)]
    return f"__{'r' if reflected else ''}{name}__"


def operate(frame: Frame, node: ast.BinOp, left: Kind, right: Kind) -> Kind | None:
    """Return what `left op right` gives where a class of the project says so, None where none does."""
    sides = (left, method_name(node.op), right), (right, method_name(node.op, reflected=True), left)
    for owner, method, other in sides:
        result = _call(frame, owner, method, [other])
        if result is not None:
            frame.emit(Operation, node, operator=type(node.op), left=left, right=right)
            return result
    return None


def operate_unary(frame: Frame, node: ast.UnaryOp, operand: Kind) -> Kind | None:
    """Return what `-operand` and the like give where a class of the project says so, None where none does."""
    result = _call(frame, operand, method_name(node.op), [])
    if result is not None:
        frame.emit(Operation, node, operator=type(node.op), left=operand)
    return result


def _call(frame: Frame, owner: Kind, name: str, args: list[Kind]) -> Kind | None:
    project = frame.interpreter.project
    if not isinstance(owner, k.Instance) or "torch.Tensor" in project.lineage(owner.cls)[1]:
        return None
    method = project.find_method(owner.cls, name)
    return None if method is None else call_function(frame, k.Function(method, owner), args, {}, starred=False)


def note_comparison(frame: Frame, node: ast.Compare, operator: ast.cmpop, left: Kind, right: Kind) -> None:
    """Emit a comparison of two lists or tuples that comes to compare tensors."""
    if isinstance(operator, (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
        return
    if isinstance(left, k.Sequence) and isinstance(right, k.Sequence) and _compares_tensors(left, right):
        frame.emit(Operation, node, operator=type(operator), left=left, right=right)


def _compares_tensors(left: k.Sequence, right: k.Sequence) -> bool:
    """Whether a tensor is compared before the outcome is known: by the lengths, or by two constants that differ."""
    if left.items is None or right.items is None:
        known = left.items if left.items is not None else right.items
        return known is not None and any(isinstance(item, k.Tensor) for item in known)
    if len(left.items) != len(right.items):
        return False
    tensors = False
    for one, other in zip(left.items, right.items, strict=True):
        if isinstance(one, k.Value) and isinstance(other, k.Value):
            constants = one.constant is not k.MISSING and other.constant is not k.MISSING
            if constants and one.constant != other.constant:
                return tensors
        tensors = tensors or isinstance(one, k.Tensor) or isinstance(other, k.Tensor)
    return tensors
