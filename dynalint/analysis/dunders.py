"""Special methods that Python calls on instances of project classes, such as operators and comparisons."""

from __future__ import annotations

import ast

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Operation
from dynalint.analysis.frame import Frame
from dynalint.analysis.functions import call_function
from dynalint.analysis.index import FunctionInfo
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
_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("__eq__", "__eq__"),
    ast.NotEq: ("__ne__", "__ne__"),
    ast.Lt: ("__lt__", "__gt__"),
    ast.LtE: ("__le__", "__ge__"),
    ast.Gt: ("__gt__", "__lt__"),
    ast.GtE: ("__ge__", "__le__"),
}
# Kinds that can be instances of project classes.
_OBJECTS = (k.Instance, k.Union)
_UNARY: dict[type[ast.AST], str] = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}


def method_name(operator: ast.operator | ast.unaryop, *, reflected: bool = False) -> str:
    """Return the name of an operator's special method, such as `__mul__`, `__rmul__` or `__invert__`."""
    name = _UNARY[type(operator)] if isinstance(operator, ast.unaryop) else _NAMES[type(operator)]
    return f"__{'r' if reflected else ''}{name}__"


def operate(frame: Frame, node: ast.BinOp, left: Kind, right: Kind) -> Kind | None:
    """Return the result of `left op right` if a project class defines the operator, or None otherwise."""
    if not isinstance(left, _OBJECTS) and not isinstance(right, _OBJECTS):
        return None
    sides = (left, method_name(node.op), right), (right, method_name(node.op, reflected=True), left)
    for owner, method, other in sides:
        result = _call(frame, owner, method, [other])
        if result is not None:
            frame.emit(Operation, node, operator=type(node.op), left=left, right=right)
            return result
    return None


def operate_unary(frame: Frame, node: ast.UnaryOp, operand: Kind) -> Kind | None:
    """Return the result of a unary operator if a project class defines it, or None otherwise."""
    result = _call(frame, operand, method_name(node.op), [])
    if result is not None:
        frame.emit(Operation, node, operator=type(node.op), left=operand)
    return result


def _call(frame: Frame, owner: Kind, name: str, args: list[Kind]) -> Kind | None:
    if not isinstance(owner, _OBJECTS):
        return None
    objects = k.without(owner, "none").members
    is_object = bool(objects) and all(isinstance(one, k.Instance) for one in objects)
    return call_special(frame, owner, name, args) if is_object else None


def call_special(frame: Frame, owner: Kind, name: str, args: list[Kind]) -> Kind | None:
    """Return the result of a special method that at least one alternative of `owner` has, or None if none has it.

    Tensor subclasses are handled with the tensor methods.
    """
    if not isinstance(owner, _OBJECTS):
        return None
    project = frame.interpreter.project
    having: dict[FunctionInfo, list[Kind]] = {}
    for one in owner.members:
        if isinstance(one, k.Instance) and "torch.Tensor" not in project.lineage(one.cls)[1]:
            for method, receiver in frame.interpreter.heirs.methods(frame, one, name):
                having.setdefault(method, []).append(receiver)
    if not having:
        return None
    bound = [k.Function(method, k.join_all(some)) for method, some in having.items()]
    return k.join_all([call_function(frame, method, args, {}, starred=False) for method in bound])


def spread(frame: Frame, kind: Kind) -> Kind:
    """Return `kind` with each project instance replaced by the iterator that it returns."""
    if not isinstance(kind, _OBJECTS) or not any(isinstance(one, k.Instance) for one in kind.members):
        return kind
    return k.join_all([_iterator(frame, one) if isinstance(one, k.Instance) else one for one in kind.members])


def _iterator(frame: Frame, owner: k.Instance) -> Kind:
    made = call_special(frame, owner, "__iter__", [])
    if made is None:
        item = call_special(frame, owner, "__getitem__", [k.INT])
        return owner if item is None else k.Sequence("generator", item)
    item = call_special(frame, made, "__next__", [])
    return made if item is None else k.Sequence("generator", item)


def length(frame: Frame, kind: Kind) -> Kind | None:
    """Return the `len` of a project instance: an integer unless NumPy, which Dynamo traces, computed it."""
    counted = call_special(frame, kind, "__len__", [])
    return counted if counted is None or k.is_number(counted) or k.only_tensor(counted) is not None else k.INT


def truth_of(frame: Frame, kind: Kind) -> Kind:
    """Return the value that determines whether `kind` is true. The class of a project instance defines this value."""
    answer = call_special(frame, kind, "__bool__", []) or length(frame, kind)
    return kind if answer is None or not k.may_be_tensor(answer) else answer


def compared(frame: Frame, operator: ast.cmpop, left: Kind, right: Kind) -> Kind | None:
    """Return the result of a comparison that a project class defines, or None otherwise."""
    if isinstance(operator, (ast.In, ast.NotIn)):
        return None if call_special(frame, right, "__contains__", [left]) is None else k.BOOL
    own, reflected = _COMPARISONS.get(type(operator), ("", ""))
    if not own:
        return None
    result = call_special(frame, left, own, [right])
    return call_special(frame, right, reflected, [left]) if result is None else result


def note_comparison(frame: Frame, node: ast.Compare, operator: ast.cmpop, left: Kind, right: Kind) -> None:
    """Emit an event for a comparison of two lists or tuples if it compares tensors in them."""
    if isinstance(operator, (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
        return
    left, right = _size(node.left, left), _size(node.comparators[0], right)
    if isinstance(left, k.Sequence) and isinstance(right, k.Sequence) and _compares_tensors(left, right):
        frame.emit(Operation, node, operator=type(operator), left=left, right=right)


def _size(node: ast.expr, kind: Kind) -> Kind:
    """Return the kind of a compared value: the attribute `shape` is a tuple, whatever has it."""
    unknown = isinstance(kind, k.Unknown) and isinstance(node, ast.Attribute) and node.attr == "shape"
    return k.SHAPE if unknown else kind


def _compares_tensors(left: k.Sequence, right: k.Sequence) -> bool:
    """Return whether tensors are compared before a difference in length or in a constant determines the outcome."""
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
