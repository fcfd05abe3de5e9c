"""The elements that iteration yields."""

from __future__ import annotations

from dynalint.analysis import kinds as k
from dynalint.analysis.kinds import NOTHING, UNKNOWN, Kind, join

_ITERATORS = ("generator", "range_iterator")


def element_of(kind: Kind) -> Kind:
    """Return the kind of the elements that iterating over a value yields."""
    result: Kind = NOTHING
    for one in k.present(kind).members:
        result = join(result, _element_of(one))
    return UNKNOWN if result is NOTHING else result


def has_elements(kind: Kind) -> bool:
    """Return whether iterating over a value yields something in nearly all runs.

    A range may depend on an option that is 0, and an iterator may be based on something empty. Of these, only a range
    over a tensor's size counts.
    """
    if isinstance(kind, k.Sequence):
        if kind.type == "range":
            return isinstance(kind.element, k.Value) and kind.element.source == "shape"
        return kind.element is not NOTHING and kind.items != () and kind.type not in _ITERATORS
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
    return kind.element() if isinstance(kind, k.Unknown) else UNKNOWN
