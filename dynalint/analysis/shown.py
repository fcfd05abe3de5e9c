"""What runs have shown about parameters whose kinds the source code does not tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dynalint.analysis import kinds as k
from dynalint.analysis.kinds import UNKNOWN, Kind

if TYPE_CHECKING:
    from dynalint.analysis.index import FunctionInfo

ShownKinds = Mapping[tuple[Path, str], Mapping[str, Kind]]
"""The kinds of parameters, by the file and the qualified name of their function."""

_DTYPES: Mapping[str, k.DType] = {"bool": "bool", "int": "int", "float": "float", "complex": "complex"}
_PLAIN = frozenset({"bool", "int", "float", "str"})


def kind_of(kind: str, dtype: str | None, rank: int | None) -> Kind:
    """Return the kind of an argument with this type, dtype class and rank, or an unknown kind for other types."""
    if kind == "tensor":
        return k.Tensor(_DTYPES.get(dtype or ""), rank)
    if kind in _PLAIN:
        return k.Value(kind)
    return k.Sequence(kind, UNKNOWN) if kind in ("list", "tuple") else UNKNOWN


def agreed(kinds: Iterable[Kind]) -> Kind:
    """Return what all calls show: a tensor keeps the dtype and rank that all have, and other kinds have to be equal."""
    first, *others = dict.fromkeys(kinds)
    for other in others:
        if not isinstance(first, k.Tensor) or not isinstance(other, k.Tensor):
            return UNKNOWN
        first = k.Tensor(
            first.dtype if first.dtype == other.dtype else None, first.rank if first.rank == other.rank else None
        )
    return first


def shown_kind(kinds: ShownKinds, function: FunctionInfo, parameter: str) -> Kind:
    """Return the kind that runs have shown for a parameter, or an unknown kind."""
    return kinds.get((function.file.path, function.qualname), {}).get(parameter, UNKNOWN)
