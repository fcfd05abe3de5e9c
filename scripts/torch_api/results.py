"""The kinds of calls' results, and the properties that they have in common."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
import torch

from dynalint.analysis.torch_kinds import NONE, UNKNOWN, ApiKind, KindName, union
from scripts.torch_api.annotations import structseq_fields
from scripts.torch_api.calls import NUMBERS, Call, leaves_of

_NEUTRAL = "----"
_CONTAINERS = ("tuple", "list", "dict", "iterator")
_LETTERS = "bifc"
_LOOKED_AT = 8  # number of items to examine in an iterator
_WORDS = {torch.dtype: "dtype", torch.device: "device", torch.layout: "layout", torch.memory_format: "memory_format"}


class Objects:
    """Names the torch classes whose instances calls can return."""

    def __init__(self, names: Callable[[type], str | None]) -> None:
        self._names = names

    def kind(self, value: Any) -> ApiKind:
        """Return `module:NAME` or `object:NAME` for an instance of a torch class, and unknown for anything else."""
        for cls in type(value).__mro__:
            name = self._names(cls)
            if name is not None:
                return ApiKind("module" if isinstance(value, torch.nn.Module) else "object", type=name)
        return UNKNOWN


class Arguments:
    """The dtype classes of a call's arguments, and the classes for which to record a result."""

    def __init__(self, call: Call, *, pointwise: bool) -> None:
        leaves = list(leaves_of((call.args, dict(call.kwargs))))
        tensors = [_LETTERS.index(class_of(leaf.dtype)) for leaf in leaves if isinstance(leaf, torch.Tensor)]
        numbers = [NUMBERS.index(type(leaf)) for leaf in leaves if type(leaf) in NUMBERS]
        self._given = any(isinstance(leaf, torch.dtype) for leaf in leaves)
        self._pointwise = pointwise
        self._tensors = max(tensors) if tensors else max(numbers, default=1)
        self._numbers = max(numbers, default=0)

    def letters(self, dtype: torch.dtype) -> str:
        """Return the four letters for a result with this dtype.

        A pointwise operation may promote to the class of its Python numbers. The dtype of any other result is unknown
        if a number has a higher class than the tensors, or if an argument is a dtype.
        """
        letter = class_of(dtype)
        argument = self._tensors
        if self._given or (not self._pointwise and self._numbers > max(argument, 1)):
            return _NEUTRAL
        if self._pointwise and letter != _LETTERS[argument]:
            argument = max(argument, self._numbers)
        return "".join(letter if index == argument else "-" for index in range(len(_LETTERS)))


def class_of(dtype: torch.dtype) -> str:
    """Return the letter for a dtype's class."""
    if dtype.is_complex:
        return "c"
    if dtype.is_floating_point:
        return "f"
    return "b" if dtype is torch.bool else "i"


def merge(kinds: Sequence[ApiKind]) -> ApiKind:
    """Return the properties that all results of a function share, item by item if their structure is the same."""
    if any(kind.name == "union" for kind in kinds):
        kinds = [item for kind in kinds for item in (kind.items if kind.name == "union" else (kind,))]
    tuples = [kind for kind in kinds if kind.name == "tuple"]
    found = [kind for kind in kinds if kind.name not in _CONTAINERS]
    if tuples:
        found.append(_merged_tuple(tuples))
    containers: tuple[KindName, ...] = ("list", "dict", "iterator")
    for name in containers:
        items = [item for kind in kinds if kind.name == name for item in kind.items]
        if items:
            known = [item for item in items if item != UNKNOWN] or [UNKNOWN]
            found.append(ApiKind(name, items=(_of_any_depth(known),)))
    return union(_plainest(found))


def _of_any_depth(items: Sequence[ApiKind]) -> ApiKind:
    """Return the kind of a list's items, which for nested lists only says that they may be nested."""
    if len({item.name == "list" for item in items}) == 1:
        return merge(items)
    leaf = merge([one for item in items for one in item.walk() if one.name not in ("list", "union")])
    return union([leaf, ApiKind("list", items=(leaf,))])


def _merged_tuple(tuples: list[ApiKind]) -> ApiKind:
    first = tuples[0]
    if len({(len(kind.items), kind.fields, kind.variadic) for kind in tuples}) == 1 and not first.variadic:
        columns = zip(*(kind.items for kind in tuples), strict=True)
        return replace(first, items=tuple(merge(column) for column in columns))
    every = [item for kind in tuples for item in kind.items]
    return ApiKind("tuple", items=(merge(every),), variadic=True) if every else first


def _plainest(kinds: Sequence[ApiKind]) -> list[ApiKind]:
    """Use a call that shows where a number comes from instead of calls that do not, and join the types."""
    words = {kind.name for kind in kinds}
    types = {kind.type for kind in kinds if kind.name in ("data", "python")}
    if "data" in words:
        whole = ApiKind("data", type=types.pop() if len(types) == 1 else "")
        return [whole if kind.name in ("data", "python") else kind for kind in kinds]
    if "size" in words:
        return [kind for kind in kinds if kind.name != "tuple" or any(item.type != "int" for item in kind.items)]
    if "dim" in words:
        return [ApiKind("dim") if kind == ApiKind("python", type="int") else kind for kind in kinds]
    return list(kinds)


def settle(kind: ApiKind) -> ApiKind:
    """Return the kind with its observed dtypes simplified. A dtype is unknown if none was observed."""
    if kind.name == "tensor" and kind.dtypes == _NEUTRAL:
        kind = replace(kind, dtypes="????")
    return replace(kind, items=tuple(map(settle, kind.items))) if kind.items else kind


def result_kind(value: Any, arguments: Arguments, objects: Objects) -> ApiKind:
    """Return the kind of a call's result."""

    def merged(values: Iterable[Any]) -> ApiKind:
        found = [result_kind(item, arguments, objects) for item in values]
        return merge(found) if found else UNKNOWN

    if isinstance(value, torch.Tensor):
        return ApiKind("tensor", dtypes=arguments.letters(value.dtype), rank0=value.ndim == 0)
    if isinstance(value, tuple) and not isinstance(value, torch.Size):
        items = tuple(result_kind(item, arguments, objects) for item in value)
        return ApiKind("tuple", items=items, fields=_field_names(type(value)))
    if isinstance(value, list):
        return ApiKind("list", items=(merged(value),))
    if isinstance(value, dict):
        return ApiKind("dict", items=(merged(value.values()),))
    if hasattr(value, "__next__"):
        return ApiKind("iterator", items=(merged(itertools.islice(value, _LOOKED_AT)),))
    return _plain_kind(value) or objects.kind(value)


def _plain_kind(value: Any) -> ApiKind | None:
    if isinstance(value, torch.Size):
        return ApiKind("size")
    if isinstance(value, np.ndarray):
        return ApiKind("array")
    if value is None:
        return NONE
    if type(value) in (*NUMBERS, str, bytes):
        return ApiKind("python", type=type(value).__name__)
    if type(value) in _WORDS:
        return ApiKind("python", type=_WORDS[type(value)])
    return ApiKind("callable") if isinstance(value, (FunctionType, BuiltinFunctionType)) else None


def _field_names(cls: type) -> tuple[str, ...]:
    if cls.__module__ == "torch.return_types":
        return structseq_fields(cls)
    return tuple(getattr(cls, "_fields", ()))
