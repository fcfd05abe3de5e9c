"""The kinds of values in the torch API, and how `dynalint/data/torch_api.json` spells them.

A *kind* is spelled as follows:

    tensor                      a tensor with no further information
    tensor:bifc                 ... the four letters give the dtype class of the result for arguments of class bool,
                                int, float and complex (the highest class among the tensors; among the Python numbers
                                if there is no tensor): "bifc" the class of the input, "bbbb" always bool, "iif-" a
                                sum of real numbers. "?" not one class, "-" not accepted or never seen
    tensor:iiii@0               ... and it always has rank 0, whatever the rank of the arguments
    size                        a shape: torch.Size, or a tuple of ints that comes from shapes or strides
    dim                         an int that comes from a shape or strides: x.size(0), x.numel(), x.dim()
    python:bool                 a plain Python value that does not depend on the data of a tensor; the type is that of a
                                builtin, or "dtype", "device", "layout", "memory_format", or omitted
    data:float                  a Python value read from the data of a tensor: x.item(), torch.equal(a, b)
    array                       a NumPy array
    self                        the receiver of a method, the first argument of a function
    module                      an nn.Module; module:torch.nn.Linear one of that class
    object:torch.Generator      an instance of another torch class
    callable, none, unknown
    (tensor,python:int)         a tuple; (values=tensor,indices=tensor) a named one; (tensor...) one of any length
    [tensor]                    a list; {tensor} a dict; <tensor> an iterator
    tensor|none                 one of these
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, get_args

KindName = Literal[
    "tensor",
    "size",
    "dim",
    "python",
    "data",
    "array",
    "self",
    "module",
    "object",
    "callable",
    "none",
    "unknown",
    "tuple",
    "list",
    "dict",
    "iterator",
    "union",
]
DTypeClass = Literal["bool", "int", "float", "complex"]

_WORDS = frozenset(get_args(KindName)[:12])  # kinds that are spelled as a single word
_CLASS_OF: dict[str, DTypeClass] = {"b": "bool", "i": "int", "f": "float", "c": "complex"}
_LETTERS = "bifc"
_BRACKETS: dict[str, tuple[str, KindName]] = {"[": ("]", "list"), "{": ("}", "dict"), "<": (">", "iterator")}
UNKNOWN_DTYPES = "????"


@dataclass(frozen=True, slots=True)
class ApiKind:
    """The kind of a value, parsed from the grammar in this module.

    `type` is the class name of a `python`, `data`, `module` or `object` kind, or "" if it is unknown. `items` are a
    tuple's elements, or a union's members. If the kind is a list, an iterator, a variadic tuple or a dict, `items`
    contains a single kind, which all elements or values have. `fields` are the field names of a named tuple.
    """

    name: KindName
    type: str = ""
    dtypes: str = UNKNOWN_DTYPES
    rank0: bool = False
    items: tuple[ApiKind, ...] = ()
    fields: tuple[str, ...] = ()
    variadic: bool = False

    def __hash__(self) -> int:
        return hash((self.name, self.type, self.dtypes, self.rank0))

    @property
    def dtype(self) -> DTypeClass | Literal["same"] | None:
        """A tensor's dtype class for any arguments, "same" if it equals the input's, or None if it is unknown."""
        seen = {letter for letter in self.dtypes if letter != "-"}
        if len(seen) == 1:
            return _CLASS_OF.get(seen.pop())
        same = all(letter in (own, "-") for letter, own in zip(self.dtypes, _LETTERS, strict=True))
        return "same" if same else None

    def dtype_for(self, argument: DTypeClass | None) -> DTypeClass | None:
        """Return the dtype class of the result for arguments with dtype class `argument`.

        None means that it is unknown.
        """
        if argument is None:
            always = self.dtype
            return None if always == "same" else always
        return _CLASS_OF.get(self.dtypes[_LETTERS.index(argument[0])])

    def __str__(self) -> str:
        """Spell the kind in the way that `parse_kind` reads."""
        inner = ",".join(f"{name}={item}" for name, item in zip(self.fields, self.items, strict=False)) or ",".join(
            map(str, self.items)
        )
        if self.name == "tuple":
            return f"({inner}{'...' if self.variadic else ''})"
        if self.name == "union":
            return "|".join(map(str, self.items))
        for opening, (closing, name) in _BRACKETS.items():
            if name == self.name:
                return f"{opening}{inner}{closing}"
        detail = self.type if self.name != "tensor" or self.dtypes == UNKNOWN_DTYPES else self.dtypes
        return f"{self.name}{detail and f':{detail}'}{'@0' if self.rank0 else ''}"

    def walk(self) -> Iterable[ApiKind]:
        """Yield this kind and all kinds inside it."""
        yield self
        for item in self.items:
            yield from item.walk()


UNKNOWN = ApiKind("unknown")
NONE = ApiKind("none")
TENSOR = ApiKind("tensor")


@cache
def parse_kind(text: str) -> ApiKind:
    """Return the kind that `text` describes. Raise ValueError if it is invalid."""
    kind, rest = _parse_union(text)
    if rest:
        raise ValueError(f"{text!r} is not a kind: {rest!r} is left over")
    return kind


def union(kinds: Iterable[ApiKind]) -> ApiKind:
    """Return the kind of a value that has one of `kinds`, which must not be empty.

    Tensors are merged into a single tensor with the properties that they have in common. If any member is unknown, so
    is the union.
    """
    members = list(dict.fromkeys(one for kind in kinds for one in (kind.items if kind.name == "union" else (kind,))))
    if UNKNOWN in members:
        return UNKNOWN
    tensors = [member for member in members if member.name == "tensor"]
    if len(tensors) > 1:
        rest = [member for member in members if member.name != "tensor"]
        members = [_joined_tensor(tensors), *rest]
    return members[0] if len(members) == 1 else ApiKind("union", items=tuple(members))


@cache
def without_dtype(kind: ApiKind) -> ApiKind:
    """Return the kind with the dtypes of its tensors removed, for calls with a `dtype` argument."""
    if kind.name == "tensor":
        return replace(kind, dtypes=UNKNOWN_DTYPES)
    return replace(kind, items=tuple(map(without_dtype, kind.items))) if kind.items else kind


def _joined_tensor(tensors: list[ApiKind]) -> ApiKind:
    columns = [set(column) - {"-"} for column in zip(*(tensor.dtypes for tensor in tensors), strict=True)]
    letters = "".join("-" if not column else column.pop() if len(column) == 1 else "?" for column in columns)
    return ApiKind("tensor", dtypes=letters, rank0=all(tensor.rank0 for tensor in tensors))


def _parse_union(text: str) -> tuple[ApiKind, str]:
    kind, rest = _parse_single(text)
    if not rest.startswith("|"):
        return kind, rest
    members = [kind]
    while rest.startswith("|"):
        kind, rest = _parse_single(rest[1:])
        members.append(kind)
    return ApiKind("union", items=tuple(members)), rest


def _parse_single(text: str) -> tuple[ApiKind, str]:
    if text.startswith("("):
        return _parse_tuple(text[1:])
    if text[:1] in _BRACKETS:
        closing, name = _BRACKETS[text[0]]
        item, rest = _parse_union(text[1:])
        if not rest.startswith(closing):
            raise ValueError(f"{text!r} is not a kind: {closing!r} is missing")
        return ApiKind(name, items=(item,)), rest[1:]
    end = next(
        (index for index, letter in enumerate(text) if letter in ",|)]}>" or text.startswith("...", index)), None
    )
    word = text if end is None else text[:end]
    return _parse_word(word), text[len(word) :]


def _parse_tuple(text: str) -> tuple[ApiKind, str]:
    items: list[ApiKind] = []
    fields: list[str] = []
    while not text.startswith(")"):
        name, equals, rest = text.partition("=")
        if equals and name.isidentifier():
            fields.append(name)
            text = rest
        item, text = _parse_union(text)
        items.append(item)
        if text.startswith("...)"):
            return ApiKind("tuple", items=tuple(items), variadic=True), text[4:]
        if not text.startswith((",", ")")):
            raise ValueError(f"a tuple kind is not closed before {text!r}")
        text = text.removeprefix(",")
    return ApiKind("tuple", items=tuple(items), fields=tuple(fields)), text[1:]


def _parse_word(text: str) -> ApiKind:
    body, _, rank = text.partition("@")
    name, _, detail = body.partition(":")
    if name not in _WORDS:
        raise ValueError(f"{text!r} is not a kind")
    if name == "tensor":
        return ApiKind("tensor", dtypes=detail or UNKNOWN_DTYPES, rank0=rank == "0")
    return ApiKind(name, type=detail)  # type: ignore[arg-type]
