"""Overloads that torch declares, in stubs, in annotations of Python code, and in operator schemas."""

from __future__ import annotations

import ast
import inspect
import typing
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch._jit_internal

from dynalint.analysis.torch_api import Overload, Parameter
from dynalint.analysis.torch_kinds import NONE, UNKNOWN, ApiKind, parse_kind
from scripts.torch_api.annotations import node_of, result_kind, taken_by

_SCHEMA_LETTERS = {"Tensor": "T", "int": "I", "float": "N", "number": "N", "complex": "N", "bool": "B", "str": "S"}
_SCHEMA_RESULTS = {"Tensor": "tensor", "List[Tensor]": "(tensor...)", "bool": "python:bool", "int": "python:int",
                   "float": "python:float", "number": "python"}  # fmt: skip
# Parameters that every factory function has. The loader itself knows how they affect the result.
_LEFT_OUT = frozenset({"out", "device", "layout", "pin_memory", "requires_grad", "dtype"})

Overloads = tuple[Overload, ...]


class Stub:
    """One of torch's stub files, with its functions, and its classes' methods and annotated attributes."""

    def __init__(self, file: str) -> None:
        tree = ast.parse((Path(torch.__file__).parent / file).read_text(encoding="utf-8"))
        self.functions = _overloads(tree.body, is_method=False)
        self._classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}

    def methods(self, owner: str) -> dict[str, Overloads]:
        """Return the overloads of each method of a class, without the receiver, or nothing for an unknown class."""
        return _overloads(self._classes[owner].body, is_method=True) if owner in self._classes else {}

    def attributes(self, owner: str) -> dict[str, ApiKind]:
        """Return the kind of each annotated attribute and property of a class."""
        found: dict[str, ApiKind] = {}
        for node in self._classes[owner].body if owner in self._classes else ():
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = result_kind(node.annotation)
            elif isinstance(node, ast.FunctionDef) and "property" in map(ast.unparse, node.decorator_list):
                found[node.name] = result_kind(node.returns)
        return found


def of_python(function: Any, *, is_method: bool) -> Overloads:
    """Return the overloads given by a Python function's annotations. If it has no signature, there are none."""
    variants = []
    if inspect.isfunction(function):
        dispatched = torch._jit_internal.boolean_dispatched.get(function)  # noqa: SLF001
        if dispatched is not None:
            return _of_dispatch(dispatched)
        variants = typing.get_overloads(function)  # type: ignore[attr-defined]  # new in Python 3.11
    found = [one for one in (_of_signature(item, is_method) for item in variants or [function]) if one is not None]
    return tuple(found)


def of_schemas(operator: str) -> Overloads:
    """Return the overloads given by the schemas of an operator such as "aten::linalg_qr", as exposed to Python."""
    found = []
    for schema in torch._C._jit_get_schemas_for_operator(operator):  # noqa: SLF001
        if any(argument.is_out for argument in schema.arguments):
            continue
        parameters = [_of_schema_argument(argument) for argument in schema.arguments]
        kinds = [(item.name, _SCHEMA_RESULTS.get(str(item.type), "unknown")) for item in schema.returns]
        if len(kinds) == 1:
            kind = parse_kind(kinds[0][1])
        else:
            spelt = ",".join(f"{name}={kind}" if name else kind for name, kind in kinds)
            kind = parse_kind(f"({spelt})") if kinds else NONE
        found.append(Overload(kind, parameters=tuple(one for one in parameters if one.name not in _LEFT_OUT)))
    return tuple(found)


def knows(overloads: Sequence[Overload]) -> bool:
    """Return whether the overloads say anything about the result."""
    return any(overload.kind != UNKNOWN for overload in overloads)


def _of_dispatch(dispatched: dict[str, Any]) -> Overloads:
    """Return the overloads of a function that torch dispatches on the value of a bool argument."""
    found: list[Overload] = []
    for branch, letter, default in (("if_true", "t", True), ("if_false", "f", False)):
        for overload in of_python(dispatched[branch], is_method=False):
            parameters = tuple(
                Parameter(one.name, letter, (), dispatched["default"] is default, one.keyword_only)
                if one.name == dispatched["arg_name"]
                else one
                for one in overload.parameters or ()
            )
            found.append(Overload(overload.kind, parameters=parameters))
    return tuple(found)


def _of_signature(function: Any, is_method: bool) -> Overload | None:
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return None
    declared = list(signature.parameters.values())
    receiver = declared[0] if is_method and declared else None
    kind = result_kind(node_of(signature.return_annotation))
    if declared and _is_type_variable(signature.return_annotation, declared[0].annotation):
        kind = ApiKind("self")  # def to(self: T, ...) -> T
    return _overload(
        [
            (item.name, _parameter_node(item), item.default is not item.empty, _MARKS.get(item.kind, ""),
             item.kind is item.KEYWORD_ONLY)
            for item in declared[0 if receiver is None else 1 :]
        ],
        kind,
    )  # fmt: skip


def _parameter_node(parameter: inspect.Parameter) -> ast.expr | None:
    # An annotation such as `BroadcastingList2[int]` evaluates to None, which says nothing about the parameter.
    return None if parameter.annotation is None else node_of(parameter.annotation)


def _is_type_variable(result: Any, first: Any) -> bool:
    return result == first and (isinstance(result, typing.TypeVar) or str(result) in ("T", "T_module"))


_MARKS: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def _overloads(body: Iterable[ast.stmt], *, is_method: bool) -> dict[str, Overloads]:
    table: dict[str, Overloads] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            table[node.name] = (*table.get(node.name, ()), _of_definition(node, is_method))
    return table


def _of_definition(node: ast.FunctionDef, is_method: bool) -> Overload:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = len(positional) - len(arguments.defaults)
    items = [(item.arg, item.annotation, index >= missing, "", False) for index, item in enumerate(positional)]
    if is_method and "staticmethod" not in map(ast.unparse, node.decorator_list):
        items = items[1:]
    if arguments.vararg:
        items.append((arguments.vararg.arg, arguments.vararg.annotation, True, "*", False))
    for item, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        items.append((item.arg, item.annotation, default is not None, "", True))
    if arguments.kwarg:
        items.append((arguments.kwarg.arg, None, True, "**", False))
    return _overload(items, result_kind(node.returns))


def _overload(items: Sequence[tuple[str, ast.expr | None, bool, str, bool]], kind: ApiKind) -> Overload:
    """Return the overload for parameters given as (name, annotation, optional, "", "*" or "**", keyword-only)."""
    if any(mark == "**" for _, _, _, mark, _ in items):
        return Overload(kind)
    parameters = [
        (mark, Parameter(name, *taken_by(annotation), optional and not mark, keyword_only))
        for name, annotation, optional, mark, keyword_only in items
        if name != "out" and not (keyword_only and name in _LEFT_OUT)
    ]
    return Overload(
        kind,
        parameters=tuple(parameter for mark, parameter in parameters if not mark),
        variadic=next((parameter for mark, parameter in parameters if mark), None),
    )


def _of_schema_argument(argument: Any) -> Parameter:
    text = str(argument.type)
    inner = text.removeprefix("Optional[").removesuffix("]") if text.startswith("Optional[") else text
    letters = "L" if inner.startswith("List") else _SCHEMA_LETTERS.get(inner, "O")
    optional = argument.default_value is not None or inner != text
    name = "input" if argument.name == "self" else argument.name
    return Parameter(name, letters + ("?" if inner != text else ""), (), optional, argument.kwarg_only)
