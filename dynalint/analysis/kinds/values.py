"""The kinds, with constants for the common ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

from dynalint.analysis.kinds.base import Kind
from dynalint.analysis.records import record
from dynalint.analysis.steps import note_cut

if TYPE_CHECKING:
    from dynalint.analysis.index import ClassInfo, FunctionInfo, ModuleInfo

DType = Literal["bool", "int", "float", "complex"]
Source = Literal["python", "shape", "data"]
Key = tuple[type, Any]
HomeType = Literal["attribute", "class", "global", "closure", "default", "argument"]
MOST_PARTS = 20_000
"""The maximum number of parts in a kind. The largest kinds in real code have about three thousand."""
MOST_KEYS = 32
"""The maximum number of keys that a dict keeps separate. The values of all other keys are joined."""


class _Missing:
    """The marker for a constant whose value is unknown. None cannot be used because it is a value."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


class Composite(Kind):
    """A kind that contains other kinds, in `depth` nested containers or fewer.

    There can be at most `MOST_PARTS` parts. If there would be more, the contents are unknown. For example, a value that
    a loop puts into itself twice in each iteration doubles in size every time. `flat` is for `shallow`.
    """

    __slots__ = ("depth", "flat", "made", "size")

    depth: int
    size: int
    made: bool
    flat: tuple[int, Kind | None] | None

    def _holds(self, *parts: Kind) -> bool:
        """Compute the depth, the size and whether a part is new. Return whether the size is within the limit."""
        depth, size, made = 0, 1, False
        for part in parts:
            size += part.size
            if isinstance(part, Composite):
                depth = max(depth, part.depth)
                made = made or part.made
            elif part.made:
                made = True
        self.depth, self.made, self.flat = depth + 1, made, None
        fits = size <= MOST_PARTS
        self.size = size if fits else 1
        if not fits and any(holds_code(part) for part in parts):
            note_parts()
        return fits


@record(frozen=True, slots=True)
class Unknown(Kind):
    """Any value. `parameter` names the parameter of the current function that the value still equals, if any.

    For an element of a parameter, the index follows, as in `x[0]`, `x['image']` or, for any element, `x[]`.
    `compared` is true for the result of a comparison with that parameter, which is a mask if the parameter is a tensor.
    `optional` is true for a parameter that defaults to None.
    """

    parameter: str | None = None
    compared: bool = False
    optional: bool = False

    @property
    def is_element(self) -> bool:
        """Whether the value is an element of a parameter."""
        return self.parameter is not None and self.parameter.endswith("]")

    def element(self, index: str = "") -> Unknown:
        """Return an element of this value. Elements of elements are not told apart from other values."""
        return UNKNOWN if self.parameter is None or self.is_element else Unknown(f"{self.parameter}[{index}]")


@record(frozen=True, slots=True)
class Tensor(Kind):
    """A torch tensor. `dtype` is its dtype class and `rank` its number of dimensions, or None if unknown.

    `origin` distinguishes a module's registered buffers and parameters from other tensors, and `name` is the
    attribute's name. `array` marks a NumPy array, which Dynamo traces like a tensor. `foreseen` marks a single element
    that is computed only from Python numbers. Dynamo knows its value during tracing, so torch functions accept it as a
    size. `sparse` marks a tensor that is known to be sparse.
    """

    dtype: DType | None = None
    rank: int | None = None
    origin: Literal["buffer", "parameter", "attribute"] | None = None
    name: str | None = None
    array: bool = False
    foreseen: bool = False
    sparse: bool = False


@record(frozen=True, slots=True)
class Value(Kind):
    """A plain Python value with the builtin type `type` ("int", "float", "bool", "str", "none", "dtype", ...).

    `constant` is the value itself, if it is known. `source` is where a number comes from: a literal or argument
    ("python"), a shape ("shape"), or the elements of a tensor ("data").
    """

    type: str
    constant: Any = MISSING
    source: Source = "python"

    def __hash__(self) -> int:
        return hash((self.type, self.constant))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Value) or self.type != other.type or self.source != other.source:
            return False
        return is_same_constant(self.constant, other.constant)


def is_same_constant(one: Any, other: Any) -> bool:
    """Return whether two constants are identical. `==` does not tell, because `1 == True == 1.0` and `nan != nan`."""
    return one is other or (type(one) is type(other) and bool(one == other))


@record(frozen=True, slots=True)
class Home:
    """Where a container or state that outlives the call is stored: an attribute, a global, a default, ..."""

    type: HomeType
    name: str


@record(frozen=True, slots=True)
class Sequence(Composite):
    """A list, tuple, set, generator, `nn.ModuleList`, `nn.Sequential` or similar. `type` names the type.

    If the length is known, `items` are the kinds by position. `element` joins all elements. `home` is set if the
    container existed before the call, and `cls` if it is a named tuple of the project.
    """

    type: str
    element: Kind
    items: tuple[Kind, ...] | None = None
    home: Home | None = None
    fields: tuple[str, ...] = ()
    cls: ClassInfo | None = None

    def __post_init__(self) -> None:
        if not self._holds(self.element, *(self.items or ())):
            object.__setattr__(self, "element", UNKNOWN)
            object.__setattr__(self, "items", None)


@record(frozen=True, slots=True)
class Dictionary(Composite):
    """A dict, `nn.ModuleDict` or similar. `items` are the kinds by constant key, and `value` is the join of all values.

    `others` is the join of the values of all other keys, if it is known separately. `optional` lists the keys in
    `items`, each with its type, that are missing on some paths.
    """

    type: str
    value: Kind
    items: tuple[tuple[Any, Kind], ...] = ()
    home: Home | None = None
    others: Kind | None = None
    optional: frozenset[Key] = frozenset()

    def __post_init__(self) -> None:
        if not self._holds(self.value, self.rest, *(kind for _, kind in self.items)):
            object.__setattr__(self, "value", UNKNOWN)
            object.__setattr__(self, "others", None)
            object.__setattr__(self, "items", ())
            object.__setattr__(self, "optional", frozenset())

    def __hash__(self) -> int:
        return hash((self.type, self.value, len(self.items), self.home))

    def __eq__(self, other: object) -> bool:
        """Return whether both hold the same information. The order of keys does not matter."""
        if self is other:
            return True
        if not isinstance(other, Dictionary) or self.type != other.type or self.home != other.home:
            return False
        if self.size != other.size or self.depth != other.depth or self.optional != other.optional:
            return False
        # No part is compared twice, because that would double the work at each level of nested kinds.
        if self.value != other.value or (self.others is not other.others and self.rest != other.rest):
            return False
        if [(type(key), key) for key, _ in self.items] == [(type(key), key) for key, _ in other.items]:
            return self.items == other.items
        return self.by_key() == other.by_key()

    def by_key(self) -> dict[Key, Kind]:
        """Return the kinds by key and type, because 1 and True must be different keys."""
        return {(type(key), key): kind for key, kind in self.items}

    @property
    def rest(self) -> Kind:
        """The join of the values of keys that are not in `items`."""
        return self.value if self.others is None else self.others

    @property
    def certain(self) -> tuple[tuple[Any, Kind], ...]:
        """The items whose keys are present on all paths."""
        return tuple(pair for pair in self.items if (type(pair[0]), pair[0]) not in self.optional)

    def get(self, key: Any) -> Kind | None:
        """Return the kind stored for a constant key, or None if the key is not in `items`."""
        return next((kind for name, kind in self.items if name == key and type(name) is type(key)), None)


@record(frozen=True, slots=True)
class Instance(Kind):
    """An instance of a project class or, if `below` is true, of the class or any subclass.

    `made` is true if the current call created it.
    """

    cls: ClassInfo
    made: bool = False
    below: bool = False


@record(frozen=True, slots=True)
class Object(Kind):
    """An instance of a class outside the project, given by its dotted name: `logging.Logger`, `torch.nn.Linear`, ..."""

    type: str
    maker: Partial | None = None  # the call that has created an object of an installed package, if known


@record(frozen=True, slots=True)
class Function(Composite):
    """A project function. It is bound to `receiver` if it is a method, and to `args` and `keywords`."""

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


@record(frozen=True, slots=True)
class Class(Kind):
    """A project class."""

    cls: ClassInfo


@record(frozen=True, slots=True)
class External(Kind):
    """A function, class or module outside the project, given by its dotted name: `torch.relu`, `builtins.print`."""

    name: str


@lru_cache(maxsize=4096)
def external(name: str) -> External:
    """Return the kind with this name. Equal names share one object."""
    return External(name)


@record(frozen=True, slots=True)
class Method(Composite):
    """A method of a value that is not a project instance: `t.item`, `names.append`, `logger.info`."""

    receiver: Kind
    name: str

    def __post_init__(self) -> None:
        if not self._holds(self.receiver):
            object.__setattr__(self, "receiver", UNKNOWN)


@record(frozen=True, slots=True)
class Module(Kind):
    """A Python module in the project."""

    module: ModuleInfo


@record(frozen=True, slots=True)
class Super(Kind):
    """The result of `super()` in a method of `cls` for an instance `receiver`."""

    cls: ClassInfo
    receiver: Kind


@record(frozen=True, slots=True)
class Partial(Composite):
    """A `functools.partial` of something outside the project, or any other callable wrapped with arguments."""

    callee: Kind
    args: tuple[Kind, ...] = ()
    keywords: tuple[tuple[str, Kind], ...] = ()

    def __post_init__(self) -> None:
        if not self._holds(self.callee, *self.args, *(kind for _, kind in self.keywords)):
            object.__setattr__(self, "callee", UNKNOWN)
            object.__setattr__(self, "args", (UNKNOWN,) * len(self.args))
            object.__setattr__(self, "keywords", tuple((name, UNKNOWN) for name, _ in self.keywords))


@record(frozen=True, slots=True)
class Union(Composite):
    """One of two or more kinds, none of which is `Unknown`, `Nothing` or another union."""

    alternatives: tuple[Kind, ...]

    def __post_init__(self) -> None:
        if not self._holds(*self.alternatives):
            object.__setattr__(self, "alternatives", tuple(one for one in self.alternatives if one.size == 1))

    def __hash__(self) -> int:
        return hash(frozenset(self.alternatives))

    def __eq__(self, other: object) -> bool:
        """Return whether the alternatives are the same, in any order."""
        if self is other:
            return True
        if not isinstance(other, Union) or len(self.alternatives) != len(other.alternatives):
            return False
        if self.size != other.size or self.depth != other.depth:
            return False
        if self.alternatives == other.alternatives:
            return True
        mine, others = [list(map(hash, one.alternatives)) for one in (self, other)]
        if mine == others and len(set(mine)) == len(mine):
            return False  # in another order, they would have hashes in another order
        return set(self.alternatives) == set(other.alternatives)

    @property
    def members(self) -> tuple[Kind, ...]:
        """The alternatives."""
        return self.alternatives


UNKNOWN: Final = Unknown()
TENSOR: Final = Tensor()
BOOL_TENSOR: Final = Tensor(dtype="bool")
NONE: Final = Value("none", None)
INT: Final = Value("int")
FLOAT: Final = Value("float")
BOOL: Final = Value("bool")
STR: Final = Value("str")
SIZE: Final = Value("int", source="shape")
SHAPE: Final = Sequence("torch.Size", SIZE)
SHAPE_AS_TENSOR: Final = Sequence("shape_as_tensor", SIZE)  # the shape in compiled code, and a tensor in eager code
SOURCE_RANK: Mapping[Source, int] = {"python": 0, "shape": 1, "data": 2}


@lru_cache(maxsize=4096, typed=True)
def constant(value: object) -> Kind:
    """Return the kind of a literal."""
    if value is None:
        return NONE
    if isinstance(value, (bool, int, float, str, bytes, complex)):
        return Value(type(value).__name__, value)
    return Value("ellipsis") if value is ... else UNKNOWN


def holds_code(kind: Kind) -> bool:
    """Return whether a kind is or contains a callable from the project."""
    if isinstance(kind, (Sequence, Dictionary)):
        held = kind.element if isinstance(kind, Sequence) else kind.value
        return any(holds_code(one) for one in held.members)
    if isinstance(kind, Partial):
        return any(holds_code(one) for one in kind.callee.members)
    return isinstance(kind, (Function, Instance, Class))


def note_parts() -> None:
    """Record that a value has too many parts."""
    note_cut(f"a value with more than {MOST_PARTS} parts is not followed; build it from fewer parts")


def is_record(kind: Kind) -> bool:
    """Return whether a kind is a named tuple, which has names for its items just as a class has attributes."""
    return isinstance(kind, Sequence) and bool(kind.fields)
