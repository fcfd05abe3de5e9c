"""What a value is: the lattice of kinds that the abstract interpretation computes with.

A kind says as much as matters to Dynamo and no more: a tensor, a number read out of a tensor, a size, a Python
constant, a container of these, a module, something callable. `Unknown` is the top of the lattice and an honest answer:
no rule fires on it. `Nothing` is the bottom: no value has come here yet.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

from dynalint.analysis.bases import common_bases
from dynalint.analysis.steps import note_cut, step

if TYPE_CHECKING:
    from dynalint.analysis.index import ClassInfo, FunctionInfo, ModuleInfo

DType = Literal["bool", "int", "float", "complex"]
Source = Literal["python", "shape", "data"]
HomeType = Literal["attribute", "class", "global", "closure", "default", "argument"]

# Of instances of so many classes, those that have a base in common become one of it or any below it.
_MANY_CLASSES = 32
_MOST_ITEMS = 24
_DEEPEST = 5
# A kind of more parts than these costs steps of its own to be compared and joined.
_LARGE = 16
# So many kinds are joined at once, fewer one by one.
_MANY = 8

MOST_PARTS = 20_000
"""How many kinds one may consist of; the largest in code that people write have some three thousand."""
_ITERATORS = frozenset({"generator", "count", "range_iterator"})
_MUTABLE = frozenset({"list", "dict", "set", "deque", "defaultdict", "OrderedDict", "Counter"}) | _ITERATORS


class _Missing:
    """The mark for a constant whose value is not known (None is a value)."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


class Kind:
    """Base of all kinds."""

    __slots__ = ()

    @property
    def members(self) -> tuple[Kind, ...]:
        """The alternatives that this kind stands for; itself, except for a union."""
        return (self,)

    @property
    def size(self) -> int:
        """How many kinds it consists of."""
        return 1

    @property
    def made(self) -> bool:
        """Whether it is, or holds, an instance that the call at hand has made."""
        return False


class Composite(Kind):
    """A kind that holds others, `MOST_PARTS` at most: of one that would have more, what it holds is unknown.

    A value that is put into itself, twice in each round of a loop, has a kind of twice the size after each.
    """

    __slots__ = ("made", "size")

    size: int
    made: bool

    def _holds(self, *parts: Kind) -> bool:
        """Note the size that these parts make, and whether one is made; return whether there may be so many."""
        size, made = 1, False
        for part in parts:
            size += part.size
            made = made or part.made
        object.__setattr__(self, "made", made)
        fits = size <= MOST_PARTS
        object.__setattr__(self, "size", size if fits else 1)
        if not fits and any(_holds_code(part) for part in parts):
            _note_parts()
        return fits


@dataclass(frozen=True, slots=True)
class Unknown(Kind):
    """Anything. `parameter` names the parameter of the current function whose value this still is, if any.

    `compared` tells the outcome of comparing that value: a mask if it is a tensor.
    """

    parameter: str | None = None
    compared: bool = False


@dataclass(frozen=True, slots=True)
class Nothing(Kind):
    """No value: unreachable, or not computed yet."""


@dataclass(frozen=True, slots=True)
class Tensor(Kind):
    """A torch tensor. `dtype` is its class of dtypes, `rank` its number of dimensions, None where not known.

    `origin` tells a registered buffer or parameter of a module from other tensors; `name` is its attribute name.
    `array` marks a NumPy array, which Dynamo traces like a tensor. `foreseen` marks one element that comes from Python
    numbers alone: tracing knows its value, and torch's own functions take it as a size. `sparse` marks one that is
    certainly sparse.
    """

    dtype: DType | None = None
    rank: int | None = None
    origin: Literal["buffer", "parameter", "attribute"] | None = None
    name: str | None = None
    array: bool = False
    foreseen: bool = False
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class Value(Kind):
    """A plain Python value of builtin type `type` ("int", "float", "bool", "str", "none", "dtype", "device", ...).

    `constant` is the value itself where it is known. `source` tells where a number came from: written in the code or
    passed in ("python"), read off a shape ("shape"), or read out of a tensor's elements ("data").
    """

    type: str
    constant: Any = MISSING
    source: Source = "python"

    def __hash__(self) -> int:
        return hash((self.type, self.source))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Value) or self.type != other.type or self.source != other.source:
            return False
        return _is_same_constant(self.constant, other.constant)


def _is_same_constant(one: Any, other: Any) -> bool:
    # 1 == True == 1.0, and nan != nan: neither may decide whether two constants are the same.
    return one is other or (type(one) is type(other) and bool(one == other))


@dataclass(frozen=True, slots=True)
class Home:
    """Where a container or a piece of state lives that outlives the call: an attribute, a global, a default, ..."""

    type: HomeType
    name: str


@dataclass(frozen=True, slots=True)
class Sequence(Composite):
    """A list, tuple, set, deque, generator, `nn.ModuleList`, `nn.Sequential` and the like, named by `type`.

    `items` are the kinds by position where the length is known; `element` is the join of all elements. `home` is set
    for a container that existed before the call.
    """

    type: str
    element: Kind
    items: tuple[Kind, ...] | None = None
    home: Home | None = None
    fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self._holds(self.element, *(self.items or ())):
            object.__setattr__(self, "element", UNKNOWN)
            object.__setattr__(self, "items", None)


@dataclass(frozen=True, slots=True)
class Dictionary(Composite):
    """A dict, `nn.ModuleDict` or the like. `items` holds the kinds by constant key, `value` the join of all values."""

    type: str
    value: Kind
    items: tuple[tuple[Any, Kind], ...] = ()
    home: Home | None = None

    def __post_init__(self) -> None:
        if not self._holds(self.value, *(kind for _, kind in self.items)):
            object.__setattr__(self, "value", UNKNOWN)
            object.__setattr__(self, "items", ())

    def __hash__(self) -> int:
        return hash((self.type, self.value, len(self.items), self.home))

    def __eq__(self, other: object) -> bool:
        """Whether the same is known, in whatever order of the keys."""
        if not isinstance(other, Dictionary) or self.type != other.type or self.home != other.home:
            return False
        return self.value == other.value and (self.items == other.items or self.by_key() == other.by_key())

    def by_key(self) -> dict[object, Kind]:
        """Return the kinds by key and its type: 1 and True are different keys."""
        return {(key.__class__, key): kind for key, kind in self.items}

    def get(self, key: Any) -> Kind | None:
        """Return the kind under a constant key, or None."""
        for name, kind in self.items:
            if name == key and type(name) is type(key):
                return kind
        return None


@dataclass(frozen=True, slots=True)
class Instance(Kind):
    """An instance of a class of the project; with `below`, of that class or of any that inherits from it.

    `made` tells that the call at hand has made it.
    """

    cls: ClassInfo
    made: bool = False
    below: bool = False


@dataclass(frozen=True, slots=True)
class Object(Kind):
    """An instance of a class outside the project, by its dotted name: `logging.Logger`, `torch.nn.Linear`, ..."""

    type: str


@dataclass(frozen=True, slots=True)
class Function(Composite):
    """A function of the project, bound to `receiver` where it is a method, with `args`/`keywords` already given."""

    function: FunctionInfo
    receiver: Kind | None = None
    args: tuple[Kind, ...] = ()
    keywords: tuple[tuple[str, Kind], ...] = ()

    def __post_init__(self) -> None:
        given = (*self.args, *(kind for _, kind in self.keywords))
        if not self._holds(*given, *(() if self.receiver is None else (self.receiver,))):
            object.__setattr__(self, "receiver", None if self.receiver is None else UNKNOWN)
            object.__setattr__(self, "args", (UNKNOWN,) * len(self.args))
            object.__setattr__(self, "keywords", tuple((name, UNKNOWN) for name, _ in self.keywords))


@dataclass(frozen=True, slots=True)
class Class(Kind):
    """A class of the project."""

    cls: ClassInfo


@dataclass(frozen=True, slots=True)
class External(Kind):
    """A function, class or module outside the project, by its dotted name: `torch.relu`, `time`, `builtins.print`."""

    name: str


@lru_cache(maxsize=4096)
def external(name: str) -> External:
    """Return the kind of that name; what names the same is the same object."""
    return External(name)


@dataclass(frozen=True, slots=True)
class Method(Composite):
    """A method of a value that is no project instance: `t.item`, `names.append`, `logger.info`."""

    receiver: Kind
    name: str

    def __post_init__(self) -> None:
        if not self._holds(self.receiver):
            object.__setattr__(self, "receiver", UNKNOWN)


@dataclass(frozen=True, slots=True)
class Module(Kind):
    """A Python module of the project."""

    module: ModuleInfo


@dataclass(frozen=True, slots=True)
class Super(Kind):
    """What `super()` returns in a method of `cls` for an instance `receiver`."""

    cls: ClassInfo
    receiver: Kind


@dataclass(frozen=True, slots=True)
class Partial(Composite):
    """`functools.partial` of something outside the project, or any callable wrapped with given arguments."""

    callee: Kind
    args: tuple[Kind, ...] = ()
    keywords: tuple[tuple[str, Kind], ...] = ()

    def __post_init__(self) -> None:
        if not self._holds(self.callee, *self.args, *(kind for _, kind in self.keywords)):
            object.__setattr__(self, "callee", UNKNOWN)
            object.__setattr__(self, "args", (UNKNOWN,) * len(self.args))
            object.__setattr__(self, "keywords", tuple((name, UNKNOWN) for name, _ in self.keywords))


@dataclass(frozen=True, slots=True)
class Union(Composite):
    """One of several kinds, none of them unknown, nothing, or a union."""

    alternatives: tuple[Kind, ...]

    def __post_init__(self) -> None:
        if not self._holds(*self.alternatives):
            object.__setattr__(self, "alternatives", tuple(one for one in self.alternatives if one.size == 1))

    def __hash__(self) -> int:
        return hash(frozenset(self.alternatives))

    def __eq__(self, other: object) -> bool:
        """Whether the alternatives are the same, in whatever order paths have met."""
        if not isinstance(other, Union) or len(self.alternatives) != len(other.alternatives):
            return False
        return self.alternatives == other.alternatives or set(self.alternatives) == set(other.alternatives)

    @property
    def members(self) -> tuple[Kind, ...]:
        """The alternatives."""
        return self.alternatives


UNKNOWN: Final = Unknown()
NOTHING: Final = Nothing()
TENSOR: Final = Tensor()
BOOL_TENSOR: Final = Tensor(dtype="bool")
NONE: Final = Value("none", None)
INT: Final = Value("int")
FLOAT: Final = Value("float")
BOOL: Final = Value("bool")
STR: Final = Value("str")
SIZE: Final = Value("int", source="shape")
SHAPE: Final = Sequence("torch.Size", SIZE)
# What `shape_as_tensor(x)` gives in compiled code: the shape, and no tensor as in eager code.
SHAPE_AS_TENSOR: Final = Sequence("shape_as_tensor", SIZE)

SOURCE_RANK: Mapping[Source, int] = {"python": 0, "shape": 1, "data": 2}


@lru_cache(maxsize=4096, typed=True)
def constant(value: object) -> Kind:
    """Return the kind of a literal."""
    if value is None:
        return NONE
    if isinstance(value, (bool, int, float, str, bytes, complex)):
        return Value(type(value).__name__, value)
    return Value("ellipsis") if value is ... else UNKNOWN


def join(left: Kind, right: Kind) -> Kind:
    """Return the least kind that covers both: what a variable is after two paths meet."""
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


def join_all(kinds: list[Kind] | tuple[Kind, ...]) -> Kind:
    """Return the join of any number of kinds; `NOTHING` for none."""
    if len(kinds) > _MANY and not any(isinstance(kind, Unknown) for kind in kinds):
        members = _joined([], [one for kind in kinds if kind is not NOTHING for one in kind.members])
        return _union(members) if members else NOTHING
    result: Kind = NOTHING
    for kind in kinds:
        result = join(result, kind)
    return result


def rejoined(kind: Kind, members: list[Kind]) -> Kind:
    """Return the join of what has become of the alternatives of a kind; the same object if nothing has."""
    before = kind.members
    return kind if len(members) == len(before) and all(map(operator.is_, members, before)) else join_all(members)


def _joined(members: list[Kind], further: Iterable[Kind]) -> list[Kind]:
    """Join further alternatives into a list of some, in place, and return it."""
    places: dict[object, list[int]] = {}
    for place, kind in enumerate(members):
        places.setdefault(_identity(kind), []).append(place)
    bases = [kind for kind in members if isinstance(kind, Instance) and kind.below]
    for kind in further:
        same = places.setdefault(_identity(kind), [])
        for place in same:
            merged = _merge(members[place], kind)
            if merged is not None:
                members[place] = merged
                break
        else:
            if bases and any(_covers(base, kind) for base in bases):
                continue
            same.append(len(members))
            members.append(kind)
        if isinstance(kind, Instance) and kind.below:
            bases.append(kind)
    return (
        [one for one in members if not any(_covers(base, one) and base != one for base in bases)] if bases else members
    )


def _identity(kind: Kind) -> object:
    """What kinds have in common that may merge: of instances, classes and functions there may be thousands."""
    if isinstance(kind, Instance):
        return kind.cls
    if isinstance(kind, Function) and not kind.args and not kind.keywords:
        return kind.function, kind.receiver is None
    return kind if isinstance(kind, (Class, External)) else type(kind)


def _union(members: list[Kind]) -> Kind:
    if len(members) > _MANY_CLASSES:
        classes = {one.cls: one.below for one in members if isinstance(one, Instance)}
        if len(classes) > _MANY_CLASSES:
            widened = common_bases(classes, _MANY_CLASSES // 2)
            members = [one for one in members if not isinstance(one, Instance)]
            members += [Instance(cls, below=below) for cls, below in widened.items()]
    if len(members) == 1:
        return members[0]
    if sum(member.size for member in members) >= MOST_PARTS:
        if any(_holds_code(member) for member in members):
            _note_parts()
        return UNKNOWN
    return Union(tuple(members))


def _note_parts() -> None:
    note_cut(f"a value that consists of more than {MOST_PARTS} others is not followed; build it in parts")


def _covers(one: Kind, other: Kind) -> bool:
    """Whether what is said of instances holds all that is said of others."""
    if not isinstance(one, Instance) or not isinstance(other, Instance):
        return False
    if one.below:
        return one.cls in other.cls.above
    return one.cls is other.cls and not other.below and (other.made or not one.made)


def _merge(left: Kind, right: Kind) -> Kind | None:
    """Return one kind for two alternatives of the same shape, or None where they must stay apart."""
    if left is right:
        return left
    if type(left) is not type(right):
        return None
    if left.size > _LARGE:
        step(left.size // _LARGE)  # comparing and joining go through all that it holds
    if left == right:
        return left
    if isinstance(left, Instance) and isinstance(right, Instance):
        return left if _covers(left, right) else right if _covers(right, left) else None
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return _merge_tensors(left, right)
    if isinstance(left, Value) and isinstance(right, Value):
        if left.type != right.type:
            return None
        source = left.source if SOURCE_RANK[left.source] >= SOURCE_RANK[right.source] else right.source
        constant = left.constant if _is_same_constant(left.constant, right.constant) else MISSING
        return left if constant is left.constant and source is left.source else Value(left.type, constant, source)
    if isinstance(left, Function) and isinstance(right, Function):
        return _merge_functions(left, right)
    if isinstance(left, Sequence) and isinstance(right, Sequence) and left.type == right.type:
        return _merge_sequences(left, right) if left.fields == right.fields else None
    if isinstance(left, Dictionary) and isinstance(right, Dictionary) and left.type == right.type:
        return _merge_dictionaries(left, right)
    return None


def _merge_functions(left: Function, right: Function) -> Function | None:
    """One method of several objects is called once, on all of them."""
    if left.function is not right.function or left.receiver is None or right.receiver is None:
        return None
    if left.args != right.args or left.keywords != right.keywords:
        return None
    return replace(left, receiver=join(left.receiver, right.receiver))


def _merge_tensors(left: Tensor, right: Tensor) -> Tensor:
    return Tensor(
        dtype=left.dtype if left.dtype == right.dtype else None,
        rank=left.rank if left.rank == right.rank else None,
        origin=left.origin if left.origin == right.origin else None,
        name=left.name if left.name == right.name else None,
        array=left.array and right.array,
        foreseen=left.foreseen and right.foreseen,
        sparse=left.sparse and right.sparse,
    )


def _merge_sequences(left: Sequence, right: Sequence) -> Sequence:
    items = None
    if left.items is not None and right.items is not None and len(left.items) == len(right.items):
        items = tuple(join(one, other) for one, other in zip(left.items, right.items, strict=True))
    element = join(left.element, right.element)
    return Sequence(left.type, element, items, _either_home(left.home, right.home), left.fields)


def _merge_dictionaries(left: Dictionary, right: Dictionary) -> Dictionary:
    known = right.by_key()
    items = [(key, join(kind, known[type(key), key])) for key, kind in left.items if (type(key), key) in known]
    return Dictionary(left.type, join(left.value, right.value), tuple(items), _either_home(left.home, right.home))


def _either_home(left: Home | None, right: Home | None) -> Home | None:
    """One of two places, the same one whichever of them comes first: findings name it."""
    if left is None or right is None or left == right:
        return left or right
    return min(left, right, key=lambda home: (home.type, home.name))


def is_record(kind: Kind) -> bool:
    """Whether a kind is a named tuple, which has its items under names of its own as a class has its attributes."""
    return isinstance(kind, Sequence) and bool(kind.fields)


def sequence(type_: str, items: list[Kind]) -> Sequence:
    """Return the kind of a fresh container with these items."""
    known = tuple(items) if len(items) <= _MOST_ITEMS else None
    return Sequence(type_, shallow(join_all(items)), known)


def shallow(kind: Kind, depth: int = _DEEPEST) -> Kind:
    """Return `kind` with nesting below `depth` forgotten, so that loops that wrap a value in itself come to an end."""
    if depth == 0 and isinstance(kind, (Sequence, Dictionary, Function, Partial, Method)):
        if _holds_code(kind):
            note_cut(f"what is called in containers nested more than {_DEEPEST} deep is not followed; keep it flat")
        return UNKNOWN
    if isinstance(kind, Sequence):
        element = shallow(kind.element, depth - 1)
        items = None if kind.items is None else tuple(shallow(item, depth - 1) for item in kind.items)
        if element is kind.element and all(map(operator.is_, items or (), kind.items or ())):
            return kind
        return replace(kind, element=element, items=items)
    if isinstance(kind, Dictionary):
        pairs = tuple((key, shallow(item, depth - 1)) for key, item in kind.items)
        return replace(kind, value=shallow(kind.value, depth - 1), items=pairs)
    if isinstance(kind, Union):
        return rejoined(kind, [shallow(member, depth) for member in kind.alternatives])
    return kind


def _holds_code(kind: Kind) -> bool:
    """Whether a kind is something of the project that may be called, or holds it."""
    if isinstance(kind, (Sequence, Dictionary)):
        held = kind.element if isinstance(kind, Sequence) else kind.value
        return any(_holds_code(one) for one in held.members)
    if isinstance(kind, Partial):
        return any(_holds_code(one) for one in kind.callee.members)
    return isinstance(kind, (Function, Instance, Class))


def without(kind: Kind, type_: str) -> Kind:
    """Return `kind` less the alternatives that are Python values of `type_`, as after `is not None`."""
    return rejoined(kind, [one for one in kind.members if not (isinstance(one, Value) and one.type == type_)])


def present(kind: Kind) -> Kind:
    """Return `kind` less None, unless it is nothing else: most operations on None raise, so nothing comes of them."""
    return without(kind, "none") if isinstance(kind, Union) else kind


def widened(kind: Kind) -> Kind:
    """Forget the values of constants other than None: what one caller passes says little about the others."""
    if isinstance(kind, Value) and kind.type != "none" and kind.constant is not MISSING:
        return Value(kind.type, MISSING, kind.source)
    if isinstance(kind, Union):
        return rejoined(kind, [widened(member) for member in kind.alternatives])
    return kind


def as_input(kind: Kind) -> Kind:
    """Return what compiled code gets of a value that eager code made: tracing knows the elements of no tensor in it.

    Another caller may well pass other floats, or a batch more: of a tensor it is kept only whether it is a mask.
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
        return replace(kind, value=as_input(kind.value), items=pairs)
    return kind


def only_tensor(kind: Kind) -> Tensor | None:
    """Return the tensor that `kind` certainly is (None in an alternative apart), or None.

    `mask: Tensor | None` counts as a tensor: an operation on it that a tensor breaks breaks whenever it is one.
    """
    if not isinstance(kind, Union):
        return kind if isinstance(kind, Tensor) else None
    tensor: Tensor | None = None
    for member in kind.alternatives:
        if isinstance(member, Tensor):
            tensor = member if tensor is None else _merge_tensors(tensor, member)
        elif member != NONE:
            return None
    return tensor


def may_be_tensor(kind: Kind) -> bool:
    """Whether one of the known alternatives is a tensor."""
    if isinstance(kind, Union):
        return any(isinstance(member, Tensor) for member in kind.alternatives)
    return isinstance(kind, Tensor)


def is_number(kind: Kind) -> bool:
    """Whether `kind` is certainly a plain Python number (bool, int, float, complex)."""
    members = kind.members
    return all(isinstance(member, Value) and member.type in ("bool", "int", "float", "complex") for member in members)


def tensor_and_number(one: Kind, other: Kind) -> bool:
    """Whether one of two kinds is certainly a tensor, the other a number or several: what is done with them differs."""
    if one is other or isinstance(one, Unknown) or isinstance(other, Unknown):
        return False
    if only_tensor(one) is not None and _is_given_number(other):
        return True
    return only_tensor(other) is not None and _is_given_number(one)


def _is_given_number(kind: Kind) -> bool:
    """Whether `kind` is a number or a container of numbers, None in an alternative apart."""
    given = without(kind, "none")
    if isinstance(given, Sequence):
        given = given.element
    return given is not NOTHING and is_number(given)


def held_in(outer: Sequence | Dictionary, kind: Kind) -> Kind:
    """Return what comes out of a container: containers in one that outlives the call outlive it, too."""
    if isinstance(kind, Union):
        return Union(tuple(held_in(outer, member) for member in kind.alternatives))
    if outer.home is None or not is_mutable(kind):
        return kind
    place = outer.home.name if outer.home.name.endswith("]") else f"{outer.home.name}[...]"
    return with_home(kind, Home(outer.home.type, place))


def is_made(kind: Kind | None) -> bool:
    """Whether `kind` is an instance, or one of several, that the call at hand has made: nobody else knows of it."""
    return kind is not None and all(isinstance(one, Instance) and one.made for one in kind.members)


def lasting(kind: Kind) -> Kind:
    """Return `kind` as later calls find it: what this one has made is there before those."""
    if isinstance(kind, Instance):
        return Instance(kind.cls) if kind.made else kind
    if not (kind.made and isinstance(kind, Composite)):
        return kind
    composite: Any = kind  # each of them is a dataclass, though their base is none
    result: Kind = replace(composite, **{one.name: _lasting_part(getattr(kind, one.name)) for one in fields(composite)})
    return result


def _lasting_part(part: Any) -> Any:
    if isinstance(part, tuple):
        return tuple([_lasting_part(one) for one in part])
    return lasting(part) if isinstance(part, Kind) else part


def is_mutable(kind: Kind) -> bool:
    """Whether a kind is a container that can be changed in place."""
    return isinstance(kind, (Sequence, Dictionary)) and kind.type in _MUTABLE


def with_home(kind: Kind, home: Home) -> Kind:
    """Return `kind` with every container in it marked as living at `home`."""
    if isinstance(kind, (Sequence, Dictionary)):
        return kind if kind.home == home else replace(kind, home=home)
    if isinstance(kind, Union):
        members = tuple([with_home(member, home) for member in kind.alternatives])
        return kind if all(map(operator.is_, members, kind.alternatives)) else Union(members)
    return lasting(kind) if isinstance(kind, Instance) else kind
