"""Queries on kinds, and functions that remove information from kinds."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from dynalint.analysis.kinds.base import NOTHING, Kind
from dynalint.analysis.kinds.lattice import merge_tensors, rejoined
from dynalint.analysis.kinds.values import (
    MISSING,
    NONE,
    UNKNOWN,
    Composite,
    Dictionary,
    External,
    Home,
    Instance,
    Object,
    Partial,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
)

_ITERATORS = frozenset({"generator", "count", "range_iterator"})
_MUTABLE = frozenset({"list", "dict", "set", "deque", "defaultdict", "OrderedDict", "Counter"}) | _ITERATORS


def without(kind: Kind, type_: str) -> Kind:
    """Return `kind` without alternatives that are Python values of type `type_`, as after `is not None`."""
    if not isinstance(kind, Union):
        return NOTHING if isinstance(kind, Value) and kind.type == type_ else kind
    return rejoined(kind, [one for one in kind.alternatives if not (isinstance(one, Value) and one.type == type_)])


def present(kind: Kind) -> Kind:
    """Return `kind` without None if it has other alternatives, because most operations on None raise."""
    return without(kind, "none") if isinstance(kind, Union) else kind


def widened(kind: Kind) -> Kind:
    """Forget the values of constants other than None, because one caller's value says little about other callers."""
    if isinstance(kind, Value) and kind.type != "none" and kind.constant is not MISSING:
        return Value(kind.type, MISSING, kind.source)
    if isinstance(kind, Union):
        return rejoined(kind, [widened(member) for member in kind.alternatives])
    return kind


def as_input(kind: Kind) -> Kind:
    """Return the kind of an eager value as an input to compiled code, where the elements of tensors are unknown.

    Other callers may pass other floats or ranks, so the only property kept for a tensor is whether it is a mask.
    """
    if isinstance(kind, Tensor):
        return replace(kind, foreseen=False, dtype="bool" if kind.dtype == "bool" else None, rank=None)
    if isinstance(kind, Union):
        return rejoined(kind, [as_input(member) for member in kind.alternatives])
    if isinstance(kind, Instance):
        return lasting(kind)
    if isinstance(kind, Sequence):
        items = None if kind.items is None else tuple(as_input(item) for item in kind.items)
        return replace(kind, element=as_input(kind.element), items=items)
    if isinstance(kind, Dictionary):
        pairs = tuple((key, as_input(item)) for key, item in kind.items)
        return replace(kind, value=as_input(kind.value), items=pairs, others=as_input(kind.rest))
    return kind


def outside(kind: Kind) -> Kind:
    """Return what is known about an argument of code that is not part of the project, without classes and functions.

    What NumPy returns may be a number, which matters more there.
    """
    if isinstance(kind, Tensor):
        return UNKNOWN if kind.array else Tensor(kind.dtype, kind.rank, foreseen=kind.foreseen, sparse=kind.sparse)
    if isinstance(kind, (Value, External)):
        return kind
    if isinstance(kind, Object):
        return Object(kind.type) if kind.type.startswith("torch.") else UNKNOWN
    if isinstance(kind, Sequence):
        items = None if kind.items is None else tuple(map(outside, kind.items))
        return Sequence(kind.type, outside(kind.element), items)
    return rejoined(kind, [outside(one) for one in kind.alternatives]) if isinstance(kind, Union) else UNKNOWN


def outside_call(name: str, args: Iterable[Kind], keywords: Mapping[str, Kind]) -> Partial:
    """Return a call of code that is not part of the project, by its dotted name."""
    given = tuple((keyword, outside(kind)) for keyword, kind in keywords.items())
    return Partial(External(name), tuple(map(outside, args)), given)


def only_tensor(kind: Kind) -> Tensor | None:
    """Return the tensor that `kind` definitely is, ignoring None, or None if there is no such tensor.

    `mask: Tensor | None` counts as a tensor, because an operation that does not support tensors breaks the graph
    whenever a caller passes a mask.
    """
    if not isinstance(kind, Union):
        return kind if isinstance(kind, Tensor) else None
    tensor: Tensor | None = None
    for member in kind.alternatives:
        if isinstance(member, Tensor):
            tensor = member if tensor is None else merge_tensors(tensor, member)
        elif member is not NONE and member != NONE:
            return None
    return tensor


def may_be_tensor(kind: Kind) -> bool:
    """Return whether at least one known alternative is a tensor."""
    if isinstance(kind, Union):
        return any(isinstance(member, Tensor) for member in kind.alternatives)
    return isinstance(kind, Tensor)


def is_number(kind: Kind) -> bool:
    """Return whether `kind` is known to be a plain Python number (bool, int, float or complex)."""
    members = kind.members
    return all(isinstance(member, Value) and member.type in ("bool", "int", "float", "complex") for member in members)


def tensor_and_number(one: Kind, other: Kind) -> bool:
    """Return whether one kind is known to be a tensor, and the other a number or a container of numbers."""
    if one is other or isinstance(one, Unknown) or isinstance(other, Unknown):
        return False
    if only_tensor(one) is not None and _is_given_number(other):
        return True
    return only_tensor(other) is not None and _is_given_number(one)


def _is_given_number(kind: Kind) -> bool:
    """Return whether `kind` is a number or a container of numbers, ignoring None."""
    given = [one for one in kind.members if not (isinstance(one, Value) and one.type == "none")]
    if len(given) == 1 and isinstance(given[0], Sequence):
        element = given[0].element
        return element is not NOTHING and is_number(element)
    return bool(given) and all(map(is_number, given))


def held_in(outer: Sequence | Dictionary, kind: Kind) -> Kind:
    """Return the kind of an item in a container. If the container outlives the call, so do containers inside it."""
    if isinstance(kind, Union):
        return Union(tuple(held_in(outer, member) for member in kind.alternatives))
    if outer.home is None or not is_mutable(kind):
        return kind
    place = outer.home.name if outer.home.name.endswith("]") else f"{outer.home.name}[...]"
    return with_home(kind, Home(outer.home.type, place))


def is_made(kind: Kind | None) -> bool:
    """Return whether all instances that `kind` may be were created by the current call and have not been stored."""
    return kind is not None and all(isinstance(one, Instance) and one.made for one in kind.members)


def lasting(kind: Kind) -> Kind:
    """Return `kind` as later calls see it, where the instances that this call created already exist."""
    if isinstance(kind, Instance):
        return Instance(kind.cls) if kind.made else kind
    if not (kind.made and isinstance(kind, Composite)):
        return kind
    composite: Any = kind  # every composite kind is a dataclass, although the base class is not
    result: Kind = replace(composite, **{one.name: _lasting_part(getattr(kind, one.name)) for one in fields(composite)})
    return result


def _lasting_part(part: Any) -> Any:
    if isinstance(part, tuple):
        return tuple([_lasting_part(one) for one in part])
    return lasting(part) if isinstance(part, Kind) else part


def is_mutable(kind: Kind) -> bool:
    """Return whether a kind is a container that can be changed in place."""
    return isinstance(kind, (Sequence, Dictionary)) and kind.type in _MUTABLE


def with_home(kind: Kind, home: Home) -> Kind:
    """Return `kind` with `home` as the home of every container in it."""
    if isinstance(kind, (Sequence, Dictionary)):
        return kind if kind.home == home else replace(kind, home=home)
    if isinstance(kind, Union):
        members = tuple([with_home(member, home) for member in kind.alternatives])
        return kind if all(map(operator.is_, members, kind.alternatives)) else Union(members)
    return lasting(kind) if isinstance(kind, Instance) else kind
