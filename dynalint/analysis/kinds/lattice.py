"""The order of kinds, including how they are joined, and how they are widened to keep the lattice finite."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dynalint.analysis.kinds.base import NOTHING, Kind
from dynalint.analysis.kinds.values import (
    MISSING,
    MOST_KEYS,
    MOST_PARTS,
    SOURCE_RANK,
    UNKNOWN,
    Class,
    Composite,
    Dictionary,
    External,
    Function,
    Home,
    Instance,
    Key,
    Method,
    Object,
    Partial,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
    holds_code,
    is_same_constant,
    note_parts,
)
from dynalint.analysis.steps import step

if TYPE_CHECKING:
    from dynalint.analysis.index import ClassInfo

# If there are this many classes, instances with a common base are replaced by an instance of that base or any subclass.
_MANY_CLASSES = 32
_MOST_ITEMS = 24
_DEEPEST = 5
# Comparing and joining kinds with more parts than this costs additional steps.
_LARGE = 16
# This many kinds or more are joined all at once. Fewer kinds are joined one by one.
_MANY = 8


def join(left: Kind, right: Kind) -> Kind:
    """Return the join of two kinds, the least kind that covers both. This is a variable's kind where two paths meet."""
    if left is right or left is NOTHING:
        return right
    if right is NOTHING:
        return left
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return left if left == right else UNKNOWN
    if not isinstance(left, Union) and not isinstance(right, Union):
        merged = _merge(left, right)
        return _union([left, right]) if merged is None else merged
    if any(one is right for one in left.members):
        return left
    members = _joined([*left.members], right.members)
    if len(members) == len(left.members) and all(map(operator.is_, members, left.members)):
        return left
    return _union(members)


def stand_in(given: Kind, other: Kind) -> Kind:
    """Return the kind of `given or other`, where `given` is a parameter of unknown kind and `other` is its substitute.

    If `other` is a layer or function, the result is just `other`, because `given` must be similar. If `given` is not an
    unknown parameter, the result is the join of both.
    """
    left_out = isinstance(given, Unknown) and given.parameter is not None and not given.is_element
    return other if left_out and all(_is_callable(one) for one in other.members) else join(given, other)


def _is_callable(kind: Kind) -> bool:
    return isinstance(kind, (Instance, Object, Function, Partial, Class)) or (
        isinstance(kind, External) and kind.name.startswith("torch.")
    )


def join_all(kinds: list[Kind] | tuple[Kind, ...]) -> Kind:
    """Return the join of all given kinds, or `NOTHING` if there are none."""
    if len(kinds) == 1:
        return kinds[0]
    if len(kinds) > _MANY and not any(isinstance(kind, Unknown) for kind in kinds):
        members = _joined([], [one for kind in kinds if kind is not NOTHING for one in kind.members])
        return _union(members) if members else NOTHING
    result: Kind = NOTHING
    for kind in kinds:
        result = join(result, kind)
    return result


def rejoined(kind: Kind, members: list[Kind]) -> Kind:
    """Return the join of the new alternatives of a kind, or the same object if none of them has changed."""
    before = kind.members
    return kind if len(members) == len(before) and all(map(operator.is_, members, before)) else join_all(members)


def _joined(members: list[Kind], further: Iterable[Kind]) -> list[Kind]:
    """Join further kinds into a list of alternatives in place, and return the list."""
    places: dict[object, list[int]] = {}
    for place, kind in enumerate(members):
        places.setdefault(_identity(kind), []).append(place)
    bases: dict[object, list[Instance]] = {}
    for kind in members:
        _note_base(bases, kind)
    for kind in further:
        same = places.setdefault(_identity(kind), [])
        for place in same:
            merged = _merge(members[place], kind)
            if merged is not None:
                members[place] = merged
                break
        else:
            if next(_covering(bases, kind), None) is not None:
                continue
            same.append(len(members))
            members.append(kind)
        _note_base(bases, kind)
    return [one for one in members if all(base == one for base in _covering(bases, one))] if bases else members


def _note_base(bases: dict[object, list[Instance]], kind: Kind) -> None:
    if isinstance(kind, Instance) and kind.below:
        bases.setdefault(kind.cls, []).append(kind)


def _covering(bases: Mapping[object, list[Instance]], kind: Kind) -> Iterator[Instance]:
    """Yield the `bases`, grouped by class, that cover a kind (see `_covers`)."""
    for cls in kind.cls.above if bases and isinstance(kind, Instance) else ():
        yield from bases.get(cls, ())


def _identity(kind: Kind) -> object:
    """Return a key that is equal for kinds that may merge, because comparing thousands of kinds would be slow."""
    type_ = type(kind)
    if type_ is Instance:
        return kind.cls  # type: ignore[attr-defined]
    if isinstance(kind, Function) and not kind.args and not kind.keywords:
        return kind.function, kind.receiver is None
    return kind if type_ is Class or type_ is External else type_


def _union(members: list[Kind]) -> Kind:
    if len(members) > _MANY_CLASSES:
        classes = {one.cls: one.below for one in members if isinstance(one, Instance)}
        if len(classes) > _MANY_CLASSES:
            widened = _common_bases(classes, _MANY_CLASSES // 2)
            members = [one for one in members if not isinstance(one, Instance)]
            members += [Instance(cls, below=below) for cls, below in widened.items()]
    if len(members) == 1:
        return members[0]
    if sum(member.size for member in members) >= MOST_PARTS:
        if any(holds_code(member) for member in members):
            note_parts()
        return UNKNOWN
    return Union(tuple(members))


def _common_bases(classes: Mapping[ClassInfo, bool], most: int) -> dict[ClassInfo, bool]:
    """Return classes that cover all of `classes`. There are at most `most` of them if the base classes allow it.

    The value says whether a class also represents its subclasses. The base with the largest share of its subclasses in
    `classes` is used first. If two have the same share, the one with more subclasses in `classes` is used.
    """
    left = dict(classes)
    while len(left) > most:
        covered: dict[ClassInfo, list[ClassInfo]] = {}
        for cls in left:
            for base in cls.above:
                covered.setdefault(base, []).append(cls)
        several = {base: some for base, some in covered.items() if len(some) > 1}
        if not several:
            break
        best = max(several, key=lambda base: (len(several[base]) / (1 + len(base.subclasses)), len(several[base])))
        for cls in several[best]:
            del left[cls]
        left[best] = True
    return left


def _covers(one: Kind, other: Kind) -> bool:
    """Return whether a description of instances covers another."""
    if not isinstance(one, Instance) or not isinstance(other, Instance):
        return False
    if one.below:
        return one.cls in other.cls.above
    return one.cls is other.cls and not other.below and (other.made or not one.made)


def _merge(left: Kind, right: Kind) -> Kind | None:
    """Return one kind for two alternatives of the same form, or None if they must stay separate."""
    if left is right:
        return left
    if type(left) is not type(right):
        return None
    if left.size > _LARGE:
        step(left.size // _LARGE)  # comparing and joining visit all parts
    merge = _MERGERS.get(type(left))
    return left if left == right else None if merge is None else merge(left, right)


def _merge_instances(left: Instance, right: Instance) -> Instance | None:
    return left if _covers(left, right) else right if _covers(right, left) else None


def _merge_values(left: Value, right: Value) -> Value | None:
    if left.type != right.type:
        return None
    source = left.source if SOURCE_RANK[left.source] >= SOURCE_RANK[right.source] else right.source
    constant = left.constant if is_same_constant(left.constant, right.constant) else MISSING
    return left if constant is left.constant and source is left.source else Value(left.type, constant, source)


def _merge_objects(left: Object, right: Object) -> Object | None:
    return Object(left.type) if left.type == right.type else None


def _merge_methods(left: Method, right: Method) -> Method | None:
    """Merge the same method of values whose kinds merge, such as tensors with different ranks."""
    receiver = _merge(left.receiver, right.receiver) if left.name == right.name else None
    return None if receiver is None else replace(left, receiver=receiver)


def _merge_functions(left: Function, right: Function) -> Function | None:
    """Merge the same method of different objects, so that it is called once for all of them."""
    if left.function is not right.function or left.receiver is None or right.receiver is None:
        return None
    if left.args != right.args or left.keywords != right.keywords:
        return None
    return replace(left, receiver=join(left.receiver, right.receiver))


def _merge_partials(left: Partial, right: Partial) -> Partial | None:
    """Merge what is wrapped with the same parameters, so that a function that wraps itself has one kind."""
    same = left.callee == right.callee and len(left.args) == len(right.args)
    if not same or [name for name, _ in left.keywords] != [name for name, _ in right.keywords]:
        return None
    args = tuple(shallow(join(one, other)) for one, other in zip(left.args, right.args, strict=True))
    pairs = zip(left.keywords, right.keywords, strict=True)
    return replace(
        left, args=args, keywords=tuple((name, shallow(join(one, other))) for (name, one), (_, other) in pairs)
    )


def merge_tensors(left: Tensor, right: Tensor) -> Tensor:
    """Return a tensor with the properties that both tensors have."""
    return Tensor(
        dtype=left.dtype if left.dtype == right.dtype else None,
        rank=left.rank if left.rank == right.rank else None,
        origin=left.origin if left.origin == right.origin else None,
        name=left.name if left.name == right.name else None,
        array=left.array and right.array,
        foreseen=left.foreseen and right.foreseen,
        sparse=left.sparse and right.sparse,
    )


def _merge_sequences(left: Sequence, right: Sequence) -> Sequence | None:
    if left.type != right.type or left.fields != right.fields:
        return None
    items = None
    if left.items is not None and right.items is not None and len(left.items) == len(right.items):
        items = tuple(join(one, other) for one, other in zip(left.items, right.items, strict=True))
    element = join(left.element, right.element)
    cls = left.cls if left.cls is right.cls else None
    return Sequence(left.type, element, items, _either_home(left.home, right.home), left.fields, cls)


def _merge_dictionaries(left: Dictionary, right: Dictionary) -> Dictionary | None:
    """Join two dicts key by key. If a key is unknown in one of them, any of that dict's values may belong to it."""
    if left.type != right.type:
        return None
    one, other = left.by_key(), right.by_key()
    optional = left.optional | right.optional | (one.keys() ^ other.keys())
    known = {key: join(one.get(key, left.rest), other.get(key, right.rest)) for key in {**one, **other}}
    return dictionary(
        left.type,
        join(left.value, right.value),
        known,
        join(left.rest, right.rest),
        optional,
        _either_home(left.home, right.home),
    )


_MERGERS: dict[type[Kind], Callable[[Any, Any], Kind | None]] = {
    Instance: _merge_instances,
    Tensor: merge_tensors,
    Value: _merge_values,
    Function: _merge_functions,
    Partial: _merge_partials,
    Method: _merge_methods,
    Sequence: _merge_sequences,
    Dictionary: _merge_dictionaries,
    Object: _merge_objects,
}


def dictionary(
    type_: str,
    value: Kind,
    known: Mapping[Key, Kind],
    rest: Kind,
    optional: Collection[Key] = (),
    home: Home | None = None,
) -> Dictionary:
    """Return a dict with the known keys, up to `MOST_KEYS` of which are kept separate."""
    kept = list(known)[:MOST_KEYS]
    rest = join_all([rest, *(known[key] for key in list(known)[MOST_KEYS:])])
    items = tuple((key[1], known[key]) for key in kept)
    return Dictionary(type_, value, items, home, rest, frozenset(kept).intersection(optional))


def _either_home(left: Home | None, right: Home | None) -> Home | None:
    """Return one of two homes. The choice does not depend on their order, because findings mention the home."""
    if left is None or right is None or left == right:
        return left or right
    return min(left, right, key=lambda home: (home.type, home.name))


def sequence(type_: str, items: list[Kind]) -> Sequence:
    """Return the kind of a new container with these items."""
    known = tuple(map(shallow, items)) if len(items) <= _MOST_ITEMS else None
    return Sequence(type_, shallow(join_all(items)), known)


def _code_in(kind: Kind) -> list[Kind]:
    """Return the project's callables in a kind. Their bound arguments are dropped, because they can also be nested."""
    if isinstance(kind, (Sequence, Dictionary, Partial)):
        held = kind.callee if isinstance(kind, Partial) else kind.element if isinstance(kind, Sequence) else kind.value
        return [code for one in held.members for code in _code_in(one)]
    if isinstance(kind, Function):
        receiver = None if kind.receiver is None else UNKNOWN
        return [replace(kind, receiver=receiver, args=(UNKNOWN,) * len(kind.args), keywords=())]
    return [kind] if isinstance(kind, (Instance, Class)) else []


def shallow(kind: Kind, depth: int = _DEEPEST) -> Kind:
    """Return `kind` without any nesting below `depth`, so that loops that wrap a value in itself terminate.

    The functions and objects in a deeper container are kept, as if the outer container held them directly, because a
    recursive walk through nested containers eventually reaches them.
    """
    if not isinstance(kind, Composite) or kind.depth <= depth:
        return kind
    if kind.flat is None or kind.flat[0] != depth:
        flat = _flattened(kind, depth)
        kind.flat = depth, None if flat is kind else flat  # no circle, because those would never be freed
    return kind.flat[1] or kind


def _flattened(kind: Composite, depth: int) -> Kind:
    if depth == 0 and not isinstance(kind, Union):
        return join_all(_code_in(kind)) if holds_code(kind) else UNKNOWN
    if isinstance(kind, Sequence):
        element = shallow(kind.element, depth - 1)
        items = None if kind.items is None else tuple(shallow(item, depth - 1) for item in kind.items)
        if element is kind.element and all(map(operator.is_, items or (), kind.items or ())):
            return kind
        return replace(kind, element=element, items=items)
    if isinstance(kind, Dictionary):
        pairs = tuple((key, shallow(item, depth - 1)) for key, item in kind.items)
        value, rest = shallow(kind.value, depth - 1), shallow(kind.rest, depth - 1)
        return replace(kind, value=value, items=pairs, others=rest)
    if isinstance(kind, Partial):
        args = tuple(shallow(one, depth - 1) for one in kind.args)
        keywords = tuple((name, shallow(one, depth - 1)) for name, one in kind.keywords)
        return replace(kind, callee=shallow(kind.callee, depth - 1), args=args, keywords=keywords)
    if isinstance(kind, Union):
        return rejoined(kind, [shallow(member, depth) for member in kind.alternatives])
    return kind
