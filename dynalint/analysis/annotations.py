"""Kinds declared by annotations."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from dynalint.analysis import kinds as k
from dynalint.analysis.index import ClassInfo, ModuleInfo
from dynalint.analysis.kinds import UNKNOWN, Kind, join_all

if TYPE_CHECKING:
    from dynalint.analysis.frame import Engine

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
    **{f"torch.sparse.{name}Tensor": k.Tensor(sparse=True) for name in ("", "Float", "Double", "Half", "Long", "Int")},
    "numpy.ndarray": k.Tensor(array=True),
}
_OTHERS: dict[str, Kind] = {
    "torch.dtype": k.Value("dtype"),
    "torch.device": k.Value("device"),
    "torch.Size": k.SHAPE,
    # Every method of a logger breaks the graph.
    "logging.Logger": k.Object("logging.Logger"),
    **{name: k.Object(name) for name in ("random.Random", "numpy.random.Generator", "numpy.random.RandomState")},
}
# jaxtyping includes the shape in the annotation, as in `Float[Tensor, "batch dim"]`.
_JAXTYPING = re.compile(r"(?:B?(Float)|U?(Int)(?:eger)?|(Bool)|(Complex)|Shaped|Num|Inexact|Real)\d*")


# The maximum number of aliases to follow. The limit is needed because an alias can refer to itself.
_DEEPEST_ALIAS = 8


def annotation_kind(interpreter: Engine, node: ast.expr, module: ModuleInfo, depth: int = 0) -> Kind:
    """Return the kind that an annotation declares, or `UNKNOWN` if it does not determine the kind.

    `depth` is the number of aliases followed so far.
    """
    if isinstance(node, ast.Constant):
        if node.value is None:
            return k.NONE
        if isinstance(node.value, str):
            try:
                return annotation_kind(interpreter, ast.parse(node.value, mode="eval").body, module, depth)
            except SyntaxError:
                return UNKNOWN
        return UNKNOWN
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _either([annotation_kind(interpreter, side, module, depth) for side in (node.left, node.right)])
    if isinstance(node, ast.Subscript):
        return _subscript(interpreter, node, module, depth)
    if isinstance(node, (ast.Name, ast.Attribute)):
        kind = _named(interpreter, k.present(interpreter.scopes.in_scope(node, module, None)), depth)
        return _aliased(interpreter, node, module, depth) if kind == UNKNOWN and depth < _DEEPEST_ALIAS else kind
    return UNKNOWN


def as_declared(kind: Kind, declared: Kind) -> Kind:
    """Return the kind that `x: Tensor = f()` gives `x`: the alternatives of `f()` that match the annotation."""
    if isinstance(kind, k.Unknown):
        return declared
    kept = [one for one in kind.members if any(_is_like(one, other) for other in declared.members)]
    return join_all(kept) if kept else kind


def _is_like(kind: Kind, declared: Kind) -> bool:
    if isinstance(kind, k.Value) and isinstance(declared, k.Value):
        return kind.type == declared.type
    if isinstance(kind, k.Sequence) and isinstance(declared, k.Sequence):
        return kind.type == declared.type
    return type(kind) is type(declared)


def _aliased(interpreter: Engine, node: ast.Name | ast.Attribute, module: ModuleInfo, depth: int) -> Kind:
    """Return the kind of a type alias that a module defines, such as `OptTensor = Optional[Tensor]`."""
    found = _definition(interpreter, node, module)
    if found is None:
        return UNKNOWN
    values, source = found
    return join_all([annotation_kind(interpreter, _bound(value), source, depth + 1) for value in values])


def _definition(
    interpreter: Engine, node: ast.Name | ast.Attribute, module: ModuleInfo
) -> tuple[list[ast.expr], ModuleInfo] | None:
    """Return the expressions that a module assigns to a name used in an annotation, and that module."""
    if isinstance(node, ast.Name):
        return interpreter.scopes.definition(module, node.id)
    owner = interpreter.scopes.in_scope(node.value, module, None)
    return interpreter.scopes.definition(owner.module, node.attr) if isinstance(owner, k.Module) else None


def _bound(value: ast.expr) -> ast.expr:
    """Return the bound of a `TypeVar` or the base of a `NewType`, and any other alias unchanged."""
    if isinstance(value, ast.Call):
        name = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
        if name == "TypeVar":
            bounds = [keyword.value for keyword in value.keywords if keyword.arg == "bound"]
            return bounds[0] if bounds else _either_of(value.args[1:])
        if name == "NewType" and len(value.args) == 2:
            return value.args[1]
    return value


def _either_of(values: list[ast.expr]) -> ast.expr:
    """Join annotations into a single union annotation."""
    found: ast.expr = values[0] if values else ast.Constant(...)
    for value in values[1:]:
        found = ast.BinOp(found, ast.BitOr(), value)
    return found


def _either(kinds: list[Kind]) -> Kind:
    return join_all(kinds)


def named_tuple(interpreter: Engine, cls: ClassInfo, depth: int = 0) -> k.Sequence | None:
    """Return the kind of a named tuple based on the fields that its class declares, or None for any other class."""
    for one in interpreter.project.mro(cls):
        if any(base == k.External("typing.NamedTuple") for base in interpreter.project.bases(one)):
            deeper = depth + _DEEPEST_ALIAS // 2  # a field can itself be a named tuple, even of the same class
            items = [annotation_kind(interpreter, field, one.module, deeper) for field in one.annotated.values()]
            return k.Sequence("tuple", join_all(items), tuple(items), fields=tuple(one.annotated), cls=cls)
    return None


def _named(interpreter: Engine, target: Kind, depth: int) -> Kind:
    if isinstance(target, k.Class):
        record = named_tuple(interpreter, target.cls, depth) if depth < _DEEPEST_ALIAS else None
        if record is not None:
            return record
        others = set(interpreter.project.lineage(target.cls)[1]) - {"typing.Generic"}
        if any(name.startswith(("typing.", "enum.")) for name in others):
            return UNKNOWN
        return _instance_of(interpreter, target.cls)
    if not isinstance(target, k.External):
        return UNKNOWN
    name = target.name
    prefix, _, last = name.rpartition(".")
    if prefix == "builtins" and last in _SCALARS:
        return k.Value(last)
    tensor = _TENSORS.get(interpreter.project.api.canonical(name)) or _TENSORS.get(name)
    if tensor is not None:
        return tensor
    if name in _OTHERS:
        return _OTHERS[name]
    if name in _LISTS:
        return k.Sequence(_LISTS[name], UNKNOWN)
    if name in _DICTS:
        return k.Dictionary("dict", UNKNOWN)
    if interpreter.project.api.torch_class(name) is not None and name != "torch.nn.Module":
        return k.Object(name)
    return UNKNOWN


def _instance_of(interpreter: Engine, cls: ClassInfo) -> Kind:
    """Return the kind of an annotation that names a project class: an instance of the class or of any subclass.

    A tensor subclass that adds nothing is treated as a plain tensor. An annotation of `nn.Module` itself only stands
    for that class, because its subclasses often make up most of the project.
    """
    classes, others = interpreter.project.lineage(cls)
    if "torch.Tensor" in others and not any(one.methods for one in classes):
        return k.TENSOR
    _ = interpreter.project.all_classes  # fills `subclasses`
    return k.Instance(cls, below=bool(cls.subclasses) and not interpreter.project.is_module_class(cls))


def _subscript(interpreter: Engine, node: ast.Subscript, module: ModuleInfo, depth: int) -> Kind:
    target = k.present(interpreter.scopes.in_scope(node.value, module, None))
    name = target.name if isinstance(target, k.External) else ""
    arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    last = name.rpartition(".")[2]
    if last == "Optional":
        return _either([annotation_kind(interpreter, arguments[0], module, depth), k.NONE])
    if last == "Union":
        return _either([annotation_kind(interpreter, argument, module, depth) for argument in arguments])
    if last == "Annotated":
        return annotation_kind(interpreter, arguments[0], module, depth)
    of_jaxtyping = _JAXTYPING.fullmatch(last) if name.startswith("jaxtyping.") else None
    if of_jaxtyping is not None:
        array = annotation_kind(interpreter, arguments[0], module, depth)
        dtype = next((group.lower() for group in of_jaxtyping.groups() if group), None)
        return replace(array, dtype=dtype) if isinstance(array, k.Tensor) else UNKNOWN  # type: ignore[arg-type]
    if name in _DICTS:
        return k.Dictionary("dict", annotation_kind(interpreter, arguments[-1], module, depth))
    if name in _LISTS:
        return _container(interpreter, _LISTS[name], arguments, module, depth)
    return _named(interpreter, target, depth) if isinstance(target, k.Class) else UNKNOWN


def _container(interpreter: Engine, type_: str, arguments: list[ast.expr], module: ModuleInfo, depth: int) -> Kind:
    kinds = [
        annotation_kind(interpreter, argument, module, depth) for argument in arguments if not _is_ellipsis(argument)
    ]
    if type_ == "tuple" and not any(_is_ellipsis(argument) for argument in arguments):
        return k.sequence("tuple", kinds)
    return k.Sequence(type_, join_all(kinds) if kinds else UNKNOWN)


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...
