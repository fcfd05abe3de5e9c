"""Parse torch's type annotations, as kinds of results and as the types that parameters accept."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from dynalint.analysis.torch_kinds import NONE, TENSOR, UNKNOWN, ApiKind, parse_kind, union

_LETTERS = {
    "Tensor": "T", "TensorBase": "T", "Parameter": "T",
    "int": "I", "_int": "I", "SymInt": "I", "IntLikeType": "I",
    "float": "N", "_float": "N", "Number": "N", "complex": "N", "_complex": "N", "SymFloat": "N", "FloatLikeType": "N",
    "bool": "B", "_bool": "B", "SymBool": "B", "BoolLikeType": "B",
    "str": "S", "None": "?", "Any": "*", "dtype": "D", "_dtype": "D", "_device": "V", "device": "V",
    "Device": "ISV?", "DeviceLikeType": "ISV",
}  # fmt: skip
_SEQUENCES = {"Sequence", "list", "List", "tuple", "Tuple", "Iterable", "_size", "Size"}
_RESULTS = {
    "Tensor": "tensor", "TensorBase": "tensor", "Parameter": "tensor", "Size": "size", "_size": "size",
    "int": "python:int", "_int": "python:int", "SymInt": "python:int",
    "bool": "python:bool", "_bool": "python:bool",
    "float": "python:float", "_float": "python:float",
    "complex": "python:complex", "_complex": "python:complex",
    "str": "python:str", "bytes": "python:bytes", "Number": "python",
    "_dtype": "python:dtype", "dtype": "python:dtype",
    "_device": "python:device", "device": "python:device", "Device": "python:device", "DeviceLikeType": "python:device",
    "_layout": "python:layout", "layout": "python:layout", "memory_format": "python:memory_format",
    "None": "none", "NoReturn": "none", "Never": "none",
    "Callable": "callable", "ndarray": "array", "Module": "module", "Self": "self",
}  # fmt: skip
# Filled with torch's classes, by unqualified name.
_CLASSES: dict[str, ApiKind] = {}
_TRANSPARENT = {"Final", "ClassVar", "Annotated", "Required"}


def register_classes(classes: Mapping[str, type]) -> None:
    """Register torch's classes by unqualified name, so that annotations can refer to them."""
    for name, cls in classes.items():
        kind = ApiKind("module" if issubclass(cls, torch.nn.Module) else "object", type=name)
        _CLASSES.setdefault(cls.__name__, TENSOR if issubclass(cls, torch.Tensor) else kind)


def node_of(annotation: Any) -> ast.expr | None:
    """Return the syntax tree of an annotation in the form that `inspect` gives, or None if there is no annotation.

    The form can be a string, a type or a typing construct.
    """
    if annotation is inspect.Parameter.empty:
        return None
    if annotation is None or annotation is type(None):
        return ast.Constant(None)
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _parse(text.replace("NoneType", "None"))


def result_kind(annotation: ast.expr | None) -> ApiKind:
    """Return the kind that the annotation of a result gives."""
    if annotation is None:
        return UNKNOWN
    if isinstance(annotation, ast.Constant):
        if annotation.value is None:
            return NONE
        return result_kind(_parse(annotation.value)) if isinstance(annotation.value, str) else UNKNOWN
    if isinstance(annotation, ast.BinOp):
        return union((result_kind(annotation.left), result_kind(annotation.right)))
    if isinstance(annotation, ast.Subscript):
        items = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        return _generic_kind(_last_name(annotation.value), items)
    if isinstance(annotation, ast.Attribute) and ast.unparse(annotation.value) == "torch.return_types":
        fields = structseq_fields(getattr(torch.return_types, annotation.attr))
        return ApiKind("tuple", items=(TENSOR,) * len(fields), fields=fields)
    name = _last_name(annotation)
    return parse_kind(_RESULTS[name]) if name in _RESULTS else _CLASSES.get(name, UNKNOWN)


def taken_by(annotation: ast.expr | None) -> tuple[str, tuple[str, ...]]:
    """Return the letters and the literals that a parameter with this annotation accepts."""
    letters, literals = _taken(annotation)
    return ("*" if "*" in letters else "".join(sorted(letters))), tuple(sorted(literals))


def _generic_kind(name: str, items: list[ast.expr]) -> ApiKind:
    if name == "Optional":
        return union((result_kind(items[0]), NONE))
    if name == "Union":
        return union([result_kind(item) for item in items])
    if name in _TRANSPARENT:
        return result_kind(items[0])
    if name in ("tuple", "Tuple"):
        if len(items) == 2 and isinstance(items[1], ast.Constant) and items[1].value is ...:
            return ApiKind("tuple", items=(result_kind(items[0]),), variadic=True)
        return ApiKind("tuple", items=tuple(map(result_kind, items)))
    if name in ("list", "List", "Sequence"):
        return ApiKind("list", items=(result_kind(items[0]),))
    if name in ("dict", "Dict", "OrderedDict", "Mapping"):
        return ApiKind("dict", items=(result_kind(items[-1]),))
    if name in ("Iterator", "Generator", "Iterable"):
        return ApiKind("iterator", items=(result_kind(items[0]),))
    if name in ("TypeIs", "TypeGuard"):
        return ApiKind("python", type="bool")
    if name == "Literal":
        types = {type(item.value).__name__ for item in items if isinstance(item, ast.Constant)}
        return ApiKind("python", type=types.pop() if len(types) == 1 else "")
    return ApiKind("callable") if name == "Callable" else UNKNOWN


def structseq_fields(cls: Any) -> tuple[str, ...]:
    """Return the field names of a class in `torch.return_types`, in order."""
    sample = cls(range(cls.n_sequence_fields))
    fields = [field for field, value in vars(cls).items() if type(value).__name__ == "member_descriptor"]
    return tuple(sorted(fields, key=lambda field: int(getattr(sample, field))))


def _taken(annotation: ast.expr | None) -> tuple[set[str], set[str]]:
    if annotation is None:
        return {"*"}, set()
    if isinstance(annotation, ast.Constant):
        if annotation.value is None:
            return {"?"}, set()
        return _taken(_parse(annotation.value)) if isinstance(annotation.value, str) else ({"O"}, set())
    if isinstance(annotation, ast.BinOp):
        return _either([annotation.left, annotation.right])
    name = _last_name(annotation.value if isinstance(annotation, ast.Subscript) else annotation)
    if isinstance(annotation, ast.Subscript):
        items = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        if name == "Optional":
            letters, literals = _either(items)
            return letters | {"?"}, literals
        if name == "Union":
            return _either(items)
        if name == "Literal":
            values = [item.value for item in items if isinstance(item, ast.Constant)]
            words = {value for value in values if isinstance(value, str)}
            return {"t" if value else "f" for value in values if isinstance(value, bool)}, words
    if name in _SEQUENCES:
        return ({"L", "I"} if name == "_size" else {"L"}), set()
    if name.startswith(("_size_", "_ratio_", "BroadcastingList")):
        return {"L", "N", "I"}, set()
    if name == "object":
        return set("SLDVO?"), set()  # the default for overloads other than those for tensors and numbers
    return set(_LETTERS.get(name, "O")), set()


def _either(items: Iterable[ast.expr]) -> tuple[set[str], set[str]]:
    found = [_taken(item) for item in items]
    return set().union(*(letters for letters, _ in found)), set().union(*(literals for _, literals in found))


def _parse(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
