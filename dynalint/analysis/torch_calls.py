"""Compute the results of torch calls from the derived torch data."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache

from dynalint.analysis import kinds as k
from dynalint.analysis import torch_api, torch_kinds
from dynalint.analysis.dtypes import CONVERSIONS, common_dtype, given_dtype, tensors_in
from dynalint.analysis.kinds import UNKNOWN, DType, Kind, join_all
from dynalint.analysis.ranks import FROM_NUMBERS, broadcast, with_rank

# Attributes of nearly all tensors, which decide what a function of an installed package does.
OF_DENSE_TENSORS: dict[str, Kind] = {
    **dict.fromkeys(("is_mkldnn", "is_nested", "is_quantized", "is_sparse", "is_sparse_csr"), k.Value("bool", False)),
    "layout": k.Value("layout", "torch.strided"),
}


@cache
def convert(kind: torch_kinds.ApiKind, dtype: DType | None) -> Kind:  # noqa: C901 - a list of cases
    """Convert a kind in the torch data to a kind in the lattice. `dtype` is the dtype class of the input tensors."""
    name = kind.name
    if name == "tensor":
        return k.Tensor(kind.dtype_for(dtype), 0 if kind.rank0 else None)
    if name == "size":
        return k.SHAPE
    if name == "dim":
        return k.SIZE
    if name in ("python", "data"):
        if name == "data":
            return _data(kind.type, dtype)
        if not kind.type:
            return UNKNOWN
        return k.NONE if kind.type == "none" else k.Value(kind.type)
    if name == "none":
        return k.NONE
    if name == "array":
        return k.Tensor(array=True)
    if name in ("module", "object"):
        return k.Object(kind.type) if kind.type else UNKNOWN
    if name == "union":
        return join_all([convert(item, dtype) for item in kind.items])
    if name == "tuple" and not kind.variadic:
        items = tuple(convert(item, dtype) for item in kind.items)
        return k.Sequence("tuple", join_all(items), items, fields=kind.fields)
    if name in ("list", "tuple", "iterator"):
        return k.Sequence("generator" if name == "iterator" else name, convert(kind.items[0], dtype))
    if name == "dict":
        return k.Dictionary("dict", convert(kind.items[0], dtype))
    return UNKNOWN


def _data(type_: str, dtype: DType | None) -> Kind:
    """Return a Python value read from a tensor, which is a number of the tensor's dtype class or a list of numbers."""
    number = k.Value(dtype or "float", k.MISSING, "data")
    if type_ in ("", "number"):
        return number
    return k.Sequence("list", number) if type_ == "list" else k.Value(type_, k.MISSING, "data")


def hint(kind: Kind) -> str:
    """Return the hint that the torch data uses to choose between overloads."""
    if isinstance(kind, k.Tensor):
        return "tensor"
    if isinstance(kind, k.Value):
        if kind.type == "int":
            return "dim" if kind.source == "shape" else "int"
        if kind.type == "bool" and kind.constant is not k.MISSING:
            return "true" if kind.constant else "false"
        if kind.type == "str" and kind.constant is not k.MISSING:
            return f"str:{kind.constant}"
        return kind.type if kind.type in ("bool", "float", "complex", "str", "none", "dtype", "device") else "other"
    if isinstance(kind, k.Object) and kind.type == "torch.device":
        return "device"
    if isinstance(kind, k.Sequence):
        return "size" if kind.type == "torch.Size" else "sequence"
    if isinstance(kind, k.Union):
        tensor = k.only_tensor(kind)
        return "tensor" if tensor is not None else "unknown"
    return "unknown" if isinstance(kind, (k.Unknown, k.Nothing)) else "other"


def certain_flags(
    entry: torch_api.ApiEntry, args: list[Kind], keywords: dict[str, Kind], *, starred: bool
) -> frozenset[torch_api.Flag]:
    """Return the flags that all overloads of a torch function or method that accept these arguments have in common."""
    return _certain_flags(entry, *_hints(args, keywords), starred)


def _hints(args: list[Kind], keywords: dict[str, Kind]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    named = tuple((name, hint(argument)) for name, argument in keywords.items()) if keywords else ()
    return tuple([hint(argument) for argument in args]), named


@cache
def _certain_flags(
    entry: torch_api.ApiEntry, positional: tuple[str, ...], keywords: tuple[tuple[str, str], ...], starred: bool
) -> frozenset[torch_api.Flag]:
    return entry.certain_flags(positional, dict(keywords), starred=starred)


@cache
def _resolved(
    entry: torch_api.ApiEntry, positional: tuple[str, ...], keywords: tuple[tuple[str, str], ...], starred: bool
) -> torch_api.Overload:
    return entry.resolve(positional, dict(keywords), starred=starred)


def torch_call(
    entry: torch_api.ApiEntry, receiver: Kind | None, args: list[Kind], keywords: dict[str, Kind], *, starred: bool
) -> Kind:
    """Return the result of a torch function or method for these arguments."""
    result = _result(entry, receiver, tuple(args), tuple(keywords.items()), starred)
    if result is None:
        subject = _subject(receiver, args)
        return k.only_tensor(subject) or subject
    return result


def _subject(receiver: Kind | None, args: list[Kind]) -> Kind:
    """Return the operand that an in-place operation returns, which is a method's receiver or the first argument."""
    return receiver if isinstance(receiver, k.Tensor) else args[0] if args else UNKNOWN


@lru_cache(maxsize=16_384)
def _result(
    entry: torch_api.ApiEntry,
    receiver: Kind | None,
    positional: tuple[Kind, ...],
    named: tuple[tuple[str, Kind], ...],
    starred: bool,
) -> Kind | None:
    """Return the result of a call, or None if it is the operand itself."""
    args, keywords = list(positional), dict(named)
    overload = _resolved(entry, *_hints(args, keywords), starred)
    tensors = tensors_in([*([receiver] if receiver is not None else []), *args, *keywords.values()])
    if overload.kind.name == "self":
        return None
    if overload.kind.name == "union" and any(item.name == "self" for item in overload.kind.items):
        others = [convert(item, None) for item in overload.kind.items if item.name != "self"]
        return join_all([*others, k.only_tensor(_subject(receiver, args)) or k.TENSOR])
    kind = convert(overload.kind, common_dtype(tensors, args))
    if isinstance(kind, k.Tensor):
        if kind.rank is None and "elementwise" in overload.flags:
            operands = [*([] if receiver is None else [receiver]), *args, *keywords.values()]
            kind = k.Tensor(kind.dtype, broadcast(operands))
        given = given_dtype(entry.name, tensors, args, keywords)
        if given is not None:
            kind = k.Tensor(given[0], kind.rank)
    if not starred:
        kind = with_rank(kind, entry.name, tensors, args, keywords, method=isinstance(receiver, k.Tensor))
    if isinstance(kind, k.Tensor) and _is_foreseen(entry.name, overload, tensors, args, keywords):
        kind = replace(kind, foreseen=True)
    return kind


def _is_foreseen(
    name: str, overload: torch_api.Overload, tensors: list[k.Tensor], args: list[Kind], keywords: dict[str, Kind]
) -> bool:
    """Return whether Dynamo knows a call's result, because it is a single element computed only from Python numbers.

    On a GPU, Dynamo may not know it. However, the source does not show the device, and dynalint must not flag what it
    cannot know.
    """
    if name in FROM_NUMBERS:
        return bool(args) and is_one_number(args[0])
    if not (tensors or args):
        return False
    for tensor in tensors:
        if not tensor.foreseen:
            return False
    if name in CONVERSIONS:
        return True
    numbers = (one for one in (*args, *keywords.values()) if not isinstance(one, k.Tensor))
    plain = all(isinstance(member, k.Value) for number in numbers for member in number.members)
    return "elementwise" in overload.flags and plain


def is_one_number(given: Kind) -> bool:
    """Return whether a value is a Python number or a list that contains one number."""
    if isinstance(given, k.Sequence) and given.items is not None and len(given.items) == 1:
        given = given.items[0]
    return k.is_number(given) or (isinstance(given, k.Tensor) and given.foreseen)
