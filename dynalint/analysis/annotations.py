"""What an annotation says of a value's kind."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from dynalint.analysis import kinds as k
from dynalint.analysis.index import ModuleInfo
from dynalint.analysis.kinds import UNKNOWN, Kind, join_all

if TYPE_CHECKING:
    from dynalint.analysis.interpreter import Interpreter

_SCALARS = {"int", "float", "bool", "str", "bytes", "complex"}
_LISTS = {
    "builtins.list": "list",
    "typing.List": "list",
    "builtins.tuple": "tuple",
    "typing.Tuple": "tuple",
    "builtins.set": "set",
    "typing.Set": "set",
    "typing.Sequence": "list",
    "collections.abc.Sequence": "list",
    "typing.Iterable": "list",
    "collections.abc.Iterable": "list",
}
_DICTS = {"builtins.dict": "dict", "typing.Dict": "dict", "typing.Mapping": "dict", "collections.abc.Mapping": "dict"}
_TENSORS: dict[str, k.Tensor] = {
    "torch.Tensor": k.TENSOR,
    "torch.FloatTensor": k.Tensor("float"),
    "torch.HalfTensor": k.Tensor("float"),
    "torch.DoubleTensor": k.Tensor("float"),
    "torch.LongTensor": k.Tensor("int"),
    "torch.IntTensor": k.Tensor("int"),
    "torch.BoolTensor": k.Tensor("bool"),
    "torch.ByteTensor": k.Tensor("int"),
    "torch.nn.Parameter": k.Tensor(origin="parameter"),
    "numpy.ndarray": k.Tensor(array=True),
}
_TORCH_VALUES = {"torch.dtype": "dtype", "torch.device": "device"}
# jaxtyping writes the shape into the annotation: Float[Tensor, "batch dim"].
_JAXTYPING = {"Float": "float", "Int": "int", "Integer": "int", "Bool": "bool", "Complex": "complex"}


def annotation_kind(interpreter: Interpreter, node: ast.expr, module: ModuleInfo) -> Kind:
    """Return the kind that an annotation names; `UNKNOWN` for everything it does not pin down."""
    if isinstance(node, ast.Constant):
        if node.value is None:
            return k.NONE
        if isinstance(node.value, str):
            try:
                return annotation_kind(interpreter, ast.parse(node.value, mode="eval").body, module)
            except SyntaxError:
                return UNKNOWN
        return UNKNOWN
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _either([annotation_kind(interpreter, side, module) for side in (node.left, node.right)])
    if isinstance(node, ast.Subscript):
        return _subscript(interpreter, node, module)
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _named(interpreter, interpreter.scopes.in_scope(node, module, None))
    return UNKNOWN


def _either(kinds: list[Kind]) -> Kind:
    return join_all(kinds)


def _named(interpreter: Interpreter, target: Kind) -> Kind:
    if isinstance(target, k.Class):
        if any(name.startswith(("typing.", "enum.")) for name in interpreter.project.lineage(target.cls)[1]):
            return UNKNOWN
        return k.Instance(target.cls) if _worth_following(interpreter, target) else UNKNOWN
    if not isinstance(target, k.External):
        return UNKNOWN
    name = target.name
    prefix, _, last = name.rpartition(".")
    if prefix == "builtins" and last in _SCALARS:
        return k.Value(last)
    tensor = _TENSORS.get(interpreter.project.api.canonical(name)) or _TENSORS.get(name)
    if tensor is not None:
        return tensor
    if name in _TORCH_VALUES:
        return k.Value(_TORCH_VALUES[name])
    if name == "torch.Size":
        return k.SHAPE
    if name in _LISTS:
        return k.Sequence(_LISTS[name], UNKNOWN)
    if name in _DICTS:
        return k.Dictionary("dict", UNKNOWN)
    if interpreter.project.api.torch_class(name) is not None and name != "torch.nn.Module":
        return k.Object(name)
    return UNKNOWN


def _worth_following(interpreter: Interpreter, target: k.Class) -> bool:
    """Whether an annotation with a project class says enough: a base class of modules may be any of them."""
    return not interpreter.project.is_module_class(target.cls) or not target.cls.subclasses


def _subscript(interpreter: Interpreter, node: ast.Subscript, module: ModuleInfo) -> Kind:
    target = interpreter.scopes.in_scope(node.value, module, None)
    name = target.name if isinstance(target, k.External) else ""
    arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    last = name.rpartition(".")[2]
    if last == "Optional":
        return _either([annotation_kind(interpreter, arguments[0], module), k.NONE])
    if last == "Union":
        return _either([annotation_kind(interpreter, argument, module) for argument in arguments])
    if last == "Annotated":
        return annotation_kind(interpreter, arguments[0], module)
    if name.startswith("jaxtyping.") and last in _JAXTYPING:
        return k.Tensor(_JAXTYPING[last])  # type: ignore[arg-type]
    if name in _DICTS:
        return k.Dictionary("dict", annotation_kind(interpreter, arguments[-1], module))
    if name in _LISTS:
        return _container(interpreter, _LISTS[name], arguments, module)
    return UNKNOWN


def _container(interpreter: Interpreter, type_: str, arguments: list[ast.expr], module: ModuleInfo) -> Kind:
    kinds = [annotation_kind(interpreter, argument, module) for argument in arguments if not _is_ellipsis(argument)]
    if type_ == "tuple" and not any(_is_ellipsis(argument) for argument in arguments):
        return k.sequence("tuple", kinds)
    return k.Sequence(type_, join_all(kinds) if kinds else UNKNOWN)


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...
