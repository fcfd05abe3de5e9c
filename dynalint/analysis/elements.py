"""The elements that iteration yields."""

from __future__ import annotations

from dynalint.analysis import kinds as k
from dynalint.analysis.kinds import NOTHING, UNKNOWN, Kind, join


def element_of(kind: Kind) -> Kind:
    """Return the kind of the elements that iterating over a value yields."""
    result: Kind = NOTHING
    for one in k.present(kind).members:
        result = join(result, _element_of(one))
    return UNKNOWN if result is NOTHING else result


def has_elements(kind: Kind) -> bool:
    """Return whether iterating over a value yields something, as far as real calls go."""
    if isinstance(kind, k.Sequence):
        return kind.element is not NOTHING and kind.items != ()
    return isinstance(kind, k.Tensor)


def _element_of(kind: Kind) -> Kind:
    if isinstance(kind, k.Tensor):
        return k.Tensor(kind.dtype, kind.rank - 1 if kind.rank else None, array=kind.array)
    if isinstance(kind, k.Sequence):
        return kind.element
    if isinstance(kind, k.Dictionary):
        return k.join_all([k.constant(key) for key, _ in kind.items]) if kind.items else UNKNOWN
    if isinstance(kind, k.Value) and kind.type == "str":
        return k.STR
    return UNKNOWN
