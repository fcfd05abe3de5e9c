"""Classes of dtypes, such as floating point, for named dtypes and for the results of torch calls."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.kinds import DType, Kind

_DTYPES: tuple[DType, ...] = ("bool", "int", "float", "complex")
# Dtypes that have two names.
_SHORT_DTYPES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "chalf": "complex32",
    "cfloat": "complex64",
    "cdouble": "complex128",
}
_DTYPE_CLASSES: dict[str, DType] = {
    "bool": "bool",
    "uint": "int",
    "int": "int",
    "float": "float",
    "bfloat": "float",
    "complex": "complex",
}

_DIGITS = "0123456789"
CONVERSIONS = ("torch.Tensor.to", "torch.Tensor.type", "torch.Tensor.type_as")
"""Tensor methods that take a dtype, or a tensor with the required dtype, as a positional argument."""

# Functions and methods whose result has the dtype of their first tensor, which is the receiver for a method.
_LIKE_THE_FIRST = frozenset(
    "expand_as view_as reshape_as masked_fill masked_scatter masked_select gather index_select index_fill index_add "
    "index_copy index_put scatter scatter_add scatter_reduce select_scatter diagonal_scatter slice_scatter take "
    "take_along_dim repeat_interleave".split()
)


def dtype_constant(name: str) -> Kind:
    """Return the kind of a dtype given by its dotted name. `torch.half` and `torch.float16` are the same value."""
    last = name.rpartition(".")[2]
    return k.Value("dtype", f"torch.{_SHORT_DTYPES.get(last, last)}")


def _dtype_named(kind: Kind) -> DType | None:
    """Return the class of the dtype that an argument such as `torch.int8`, `bool` or `torch.BoolTensor` names."""
    if isinstance(kind, k.External):
        last = kind.name.rpartition(".")[2].removesuffix("Tensor").lower()
        return _DTYPE_CLASSES.get("uint" if last == "byte" else _SHORT_DTYPES.get(last, last).rstrip(_DIGITS))
    if isinstance(kind, k.Value) and isinstance(kind.constant, str):
        return _DTYPE_CLASSES.get(kind.constant.removeprefix("torch.").rstrip(_DIGITS))
    return None


def given_dtype(
    name: str, tensors: list[k.Tensor], args: list[Kind], keywords: dict[str, Kind]
) -> tuple[DType | None] | None:
    """Return the dtype class that a call requests or preserves, or None if it does neither.

    The class is wrapped in a tuple, which contains None if the class is unknown.
    """
    if keywords.get("dtype", k.NONE) != k.NONE:
        return (_dtype_named(keywords["dtype"]),)
    if name == "torch.full" and len(args) > 1:
        value = args[1]
        return (value.type if isinstance(value, k.Value) and value.type in _DTYPES else None,)
    if name == "torch.tensor" and args and isinstance(args[0], k.Value) and args[0].type == "bool":
        return ("bool",)
    for argument in args:
        if isinstance(argument, k.Value) and argument.type == "dtype":
            return (_dtype_named(argument),)
        if isinstance(argument, k.External) and name in CONVERSIONS:
            return (_dtype_named(argument),)
    if name in CONVERSIONS and args and k.only_tensor(args[0]) is not None:
        like = k.only_tensor(args[0])
        return (like.dtype if like else None,)
    keeps = tensors and name.rpartition(".")[2] in _LIKE_THE_FIRST
    return (tensors[0].dtype,) if keeps else None


def common_dtype(tensors: list[k.Tensor], args: list[Kind]) -> DType | None:
    """Return the dtype class that determines a call's result, from its tensors or, if it has none, its numbers."""
    dtypes = [tensor.dtype for tensor in tensors] if tensors else _number_types(args)
    return None if None in dtypes or not dtypes else max((one for one in dtypes if one), key=_DTYPES.index)


def _number_types(kinds: Iterable[Kind]) -> list[DType | None]:
    """Return the types of the Python numbers in `kinds`, including numbers in tuples and lists."""
    found: list[DType | None] = []
    for kind in kinds:
        if isinstance(kind, k.Sequence) and kind.type in ("list", "tuple"):
            found += _number_types(kind.element.members)
        elif isinstance(kind, k.Value) and kind.type in _DTYPES:
            found.append(kind.type)
        elif not isinstance(kind, k.Value):
            found.append(None)
    return found


def tensors_in(kinds: list[Kind]) -> list[k.Tensor]:
    """Return the tensors in `kinds`, including tensors in tuples and lists."""
    found: list[k.Tensor] = []
    for kind in kinds:
        for one in kind.members:
            if isinstance(one, k.Tensor):
                found.append(one)
            elif isinstance(one, k.Sequence) and k.only_tensor(one.element) is not None:
                items = [k.only_tensor(item) for item in one.items or (one.element,)]
                found += [item for item in items if item is not None]
    return found
