"""The results and effects of torch calls, available without importing torch.

The facts are in `dynalint/data/torch_api.json`, derived from an installed torch by `scripts/derive_torch_api.py`. The
file is read on the first lookup. Each entry is parsed when it is first looked up and then cached, so every later lookup
is a single dict access.

    >>> function("torch.nn.functional.relu").returns(["tensor"]).name
    'tensor'
    >>> method("max").returns(["int"]).fields
    ('values', 'indices')

`dynalint.analysis.torch_kinds` describes how kinds are spelled. An *entry* in the file is a kind, with flags after "!".
For a function whose overloads differ, it is a list of these, each preceded by the overload's parameters:

    "input:T,other:NT->tensor:bifc!elementwise"
    ["input:T->tensor:bif-@0", "input:T,dim:I,keepdim:B=->(values=tensor:bif-,indices=tensor:iii-)"]

A parameter is written as its name, the types that it accepts, and "=" if it is optional. "*" and "*name:I" mean the
same as in Python, and a method's receiver is omitted. The types are T tensor, I int, N number, B bool, t True, f False,
S str, L sequence, D dtype, V device, O anything else, ? None and * any type. A quoted string stands for that value. If
the parameters are unknown, or if overloads with different parameters have the same result, the parameters and the arrow
are omitted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from dynalint.analysis.torch_kinds import ApiKind, parse_kind, union, without_dtype

Flag = Literal["dynamic_shape", "data_dependent", "random", "mutating", "elementwise", "partial_domain"]
FLAGS: tuple[Flag, ...] = get_args(Flag)

# The parameter types that accept an argument with a given hint.
_TAKEN_BY = {
    "tensor": "T",
    "int": "IN",
    "dim": "IN",
    "float": "N",
    "complex": "N",
    "number": "IN",
    "bool": "BNtf",
    "true": "BNt",
    "false": "BNf",
    "str": "S",
    "sequence": "L",
    "size": "L",
    "none": "?",
    "dtype": "DO",
    "device": "VO",
    "other": "DVO",
}
# A parameter that takes an integer, in the spelling of the file.
INTEGER_LISTS = frozenset("dilation dim dims normalized_shape output_padding padding s size split_sizes stride".split())
"""Parameters that take integers if they only take lists."""
_INTEGER = re.compile(rf":[?L]*I[?L]*[=,-]|\b(?:{'|'.join(sorted(INTEGER_LISTS))}):[?L]*L[?L]*[=,-]")
# Every factory function accepts these without changing the kind of its result, so the file omits them.
_EVERYWHERE = frozenset({"out", "dtype", "device", "layout", "requires_grad", "pin_memory"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an overload. `letters` and `literals` are the types that it accepts, spelled as in the file."""

    name: str
    letters: str
    literals: tuple[str, ...] = ()
    optional: bool = False
    keyword_only: bool = False

    def takes(self, hint: str) -> bool:
        """Return whether this parameter accepts an argument with the given hint."""
        if hint == "unknown" or "*" in self.letters:
            return True
        if not self.letters and not self.literals:
            return hint == "none" and self.optional  # passing None is the same as omitting it
        word, _, value = hint.partition(":")
        if word == "str" and self.literals:
            return value in self.literals if value else True
        return any(letter in self.letters for letter in _TAKEN_BY.get(word, "DVO"))


@dataclass(frozen=True, slots=True)
class Overload:
    """The result of one overload. `parameters` is None if the parameters are not recorded.

    `variadic` is the parameter that accepts all further positional arguments.
    """

    kind: ApiKind
    flags: frozenset[Flag] = frozenset()
    parameters: tuple[Parameter, ...] | None = None
    variadic: Parameter | None = None

    def accepts(self, positional: Sequence[str], keywords: Mapping[str, str]) -> bool:
        """Return whether a call with these argument hints can select this overload."""
        if self.parameters is None:
            return True
        slots = [parameter for parameter in self.parameters if not parameter.keyword_only]
        further = positional[len(slots) :]
        if further and (self.variadic is None or not all(self.variadic.takes(hint) for hint in further)):
            return False
        if not all(slot.takes(hint) for slot, hint in zip(slots, positional, strict=False)):
            return False
        given = {slot.name for slot in slots[: len(positional)]}
        by_name = {parameter.name: parameter for parameter in self.parameters}
        for name, hint in keywords.items():
            if name in given or not (by_name[name].takes(hint) if name in by_name else name in _EVERYWHERE):
                return False
            given.add(name)
        return all(parameter.optional or parameter.name in given for parameter in self.parameters)


@dataclass(frozen=True, slots=True)
class ApiEntry:
    """The canonical name of a function or method, and its overloads. There is at least one overload."""

    name: str
    overloads: tuple[Overload, ...]

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def flags(self) -> frozenset[Flag]:
        """The flags of all overloads combined."""
        return frozenset[Flag]().union(*(overload.flags for overload in self.overloads))

    def resolve(
        self,
        positional: Sequence[str] = (),
        keywords: Mapping[str, str] | None = None,
        *,
        starred: bool = False,
    ) -> Overload:
        """Return the kind and the flags of a call.

        `positional` has a hint for each positional argument except a method's receiver, and `keywords` has a hint for
        each keyword argument. The hints are tensor, int, dim, float, complex, number, bool, true, false, str,
        "str:VALUE", sequence, size, none, dtype, device, other and unknown. `starred` is true if the call also has
        `*args` or `**kwargs`. If the hints match more than one overload, the result is the union of their kinds, with
        all their flags.
        """
        keywords = keywords or {}
        matching = self.overloads if starred or len(self.overloads) == 1 else self._matching(positional, keywords)
        found = _joined(tuple(_given_a_dtype(overload, positional) for overload in matching))
        if keywords.get("out", "none") != "none":
            found = _with_flag(found, "mutating")
        if keywords.get("dtype", "none") != "none":
            found = _without_dtype(found)
        return found

    def certain_flags(
        self, positional: Sequence[str] = (), keywords: Mapping[str, str] | None = None, *, starred: bool = False
    ) -> frozenset[Flag]:
        """Return the flags that all overloads matching a call have in common.

        The arguments are the same as for `resolve`.
        """
        matching = self.overloads if starred else self._matching(positional, keywords or {})
        return frozenset.intersection(*(overload.flags for overload in matching))

    def returns(
        self,
        positional: Sequence[str] = (),
        keywords: Mapping[str, str] | None = None,
        *,
        starred: bool = False,
    ) -> ApiKind:
        """Return the kind of a call's result. The arguments are the same as for `resolve`."""
        return self.resolve(positional, keywords, starred=starred).kind

    def _matching(self, positional: Sequence[str], keywords: Mapping[str, str]) -> tuple[Overload, ...]:
        matching = tuple(overload for overload in self.overloads if overload.accepts(positional, keywords))
        if not matching:
            # The hints contradict every overload, so only the number of arguments and their names are used.
            vague = dict.fromkeys(keywords, "unknown")
            matching = tuple(one for one in self.overloads if one.accepts(["unknown"] * len(positional), vague))
        return matching or self.overloads


@dataclass(frozen=True, slots=True)
class TorchClass:
    """A torch class.

    `ancestors` are the torch classes in its method resolution order, starting with itself. `instance` is the kind that
    its constructor returns: `tensor` for torch.nn.Parameter, `size` for torch.Size, `module:NAME` for an nn.Module,
    `object:NAME` for most others.
    """

    name: str
    ancestors: tuple[str, ...]
    instance: ApiKind

    @property
    def is_module(self) -> bool:
        """Whether this is `nn.Module` or a subclass of it."""
        return self.instance.name == "module"

    @property
    def call(self) -> ApiEntry | None:
        """The result of calling an instance, from a module's `forward` or `__call__`, or None if it is not callable."""
        return self.method("forward" if self.is_module else "__call__")

    def method(self, name: str) -> ApiEntry | None:
        """Return the entry of a method that the class defines or inherits, or None if there is none."""
        return _class_method(self.name, name)

    def attribute(self, name: str) -> ApiKind | None:
        """Return the kind of an attribute or property that the class defines or inherits, or None if there is none."""
        return _class_attribute(self.name, name)


def torch_version() -> str:
    """Return the torch release that the data was derived from, such as "2.13.0"."""
    return str(_data()["torch"])


def canonical(name: str) -> str:
    """Return the dotted name that the file uses for a re-exported object, or `name` itself if it is not an alias."""
    return _aliases().get(name, name)


@cache
def function(name: str) -> ApiEntry | None:
    """Return the entry for a function's full dotted name, such as "torch.nn.functional.relu", or None if unknown."""
    name = canonical(name)
    spec = _data()["functions"].get(name)
    return None if spec is None else ApiEntry(name, _parse_entry(spec))


def method(name: str) -> ApiEntry | None:
    """Return the entry for a `torch.Tensor` method, given its bare name, or None if there is none."""
    return _class_method("torch.Tensor", name)


def attribute(name: str) -> ApiKind | None:
    """Return the kind of a `torch.Tensor` attribute or property, or None if there is none."""
    return _class_attribute("torch.Tensor", name)


@cache
def torch_class(name: str) -> TorchClass | None:
    """Return the class with a full dotted name, such as "torch.nn.LSTM" or "torch.Generator", or None if unknown."""
    name = canonical(name)
    record = _data()["classes"].get(name)
    if record is None:
        return None
    ancestors = (name, *record.get("bases", ()))
    default = f"{'module' if 'torch.nn.Module' in ancestors else 'object'}:{name}"
    instance = parse_kind(record.get("instance", default))
    return TorchClass(name, ancestors, instance)


@cache
def constant(name: str) -> ApiKind | None:
    """Return the kind of a module-level value such as `torch.float32` or `torch.pi`, or None if unknown."""
    text = _data()["constants"].get(canonical(name))
    return None if text is None else parse_kind(text)


@cache
def flagged(flag: Flag) -> frozenset[str]:
    """Return the names that have a flag, such as "torch.nonzero" and "torch.Tensor.nonzero"."""
    return frozenset(name for name, spec in _all_entries() if any(flag in text for text in _flag_texts(spec)))


@cache
def untraced() -> Mapping[str, str]:
    """Return the functions and methods that always break the graph, each with Dynamo's id for the break.

    The names are as in `flagged`.
    """
    return {name: gb for gb, names in _data()["untraced"].items() for name in names.split()}


@cache
def with_integers() -> frozenset[str]:
    """Return the names, as in `flagged`, of functions and methods with a parameter that takes integers."""
    return frozenset(name for name, spec in _all_entries() if _INTEGER.search(str(spec)))


@cache
def tensor_only() -> frozenset[str]:
    """Return the names of attributes and methods that only tensors (or NumPy arrays) have."""
    return frozenset(_data()["tensor_only"])


@cache
def _data() -> dict[str, Any]:
    path = Path(__file__).parent.parent / "data" / "torch_api.json"
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


@cache
def _aliases() -> dict[str, str]:
    """Return a mapping from aliases to canonical names. The file groups aliases that differ only in their package."""
    data = _data()
    aliases: dict[str, str] = dict(data["renamed"])
    for space, homes in data["aliases"].items():
        for home, names in homes.items():
            aliases.update((f"{space}.{name}", f"{home}.{name}") for name in names.split())
    return aliases


@cache
def _class_method(owner: str, name: str) -> ApiEntry | None:
    found = torch_class(owner)
    for ancestor in found.ancestors if found else ():
        spec = _data()["classes"].get(ancestor, {}).get("methods", {}).get(name)
        if spec is not None:
            return ApiEntry(f"{ancestor}.{name}", _parse_entry(spec))
    return None


@cache
def _class_attribute(owner: str, name: str) -> ApiKind | None:
    found = torch_class(owner)
    for ancestor in found.ancestors if found else ():
        text = _data()["classes"].get(ancestor, {}).get("attributes", {}).get(name)
        if text is not None:
            return parse_kind(text)
    return None


def _all_entries() -> Iterator[tuple[str, str | list[str]]]:
    yield from _data()["functions"].items()
    for owner, record in _data()["classes"].items():
        for name, spec in record.get("methods", {}).items():
            yield f"{owner}.{name}", spec


def _flag_texts(spec: str | list[str]) -> Iterator[list[str]]:
    for text in [spec] if isinstance(spec, str) else spec:
        yield text.partition("!")[2].split()


def _given_a_dtype(overload: Overload, positional: Sequence[str]) -> Overload:
    """Forget an overload's dtypes if a dtype is a positional argument, as in `x.to("cuda", torch.float16)`."""
    slots = [parameter.name for parameter in overload.parameters or () if not parameter.keyword_only]
    if "dtype" not in slots[: len(positional)] or positional[slots.index("dtype")] in ("none", "device"):
        return overload
    return _without_dtype(overload)


def _joined(overloads: tuple[Overload, ...]) -> Overload:
    if len(overloads) == 1:
        return overloads[0]
    return _joined_results(tuple((overload.kind, overload.flags) for overload in overloads))


@cache
def _joined_results(results: tuple[tuple[ApiKind, frozenset[Flag]], ...]) -> Overload:
    return Overload(union(kind for kind, _ in results), frozenset[Flag]().union(*(flags for _, flags in results)))


@cache
def _with_flag(overload: Overload, flag: Flag) -> Overload:
    return replace(overload, flags=overload.flags | {flag})


@cache
def _without_dtype(overload: Overload) -> Overload:
    return replace(overload, kind=without_dtype(overload.kind))


def _parse_entry(spec: str | list[str]) -> tuple[Overload, ...]:
    return (parse_overload(spec),) if isinstance(spec, str) else tuple(map(parse_overload, spec))


@cache
def parse_overload(text: str) -> Overload:
    """Return the overload that `text` describes. Raise ValueError if its kind is invalid."""
    signature, arrow, result = text.rpartition("->")
    kind, _, flags = result.partition("!")
    marks = frozenset(flag for flag in FLAGS if flag in flags.split())
    if not arrow:
        return Overload(parse_kind(kind), marks)
    parameters: list[Parameter] = []
    variadic: Parameter | None = None
    keyword_only = False
    for part in filter(None, signature.split(",")):
        name, _, takes = part.partition(":")
        letters, *quoted = takes.removesuffix("=").split("'")
        parameter = Parameter(name.lstrip("*"), letters, tuple(quoted[::2]), takes.endswith("="), keyword_only)
        if not part.startswith("*"):
            parameters.append(parameter)
        elif parameter.name:
            variadic = parameter
        keyword_only = keyword_only or part.startswith("*")
    return Overload(parse_kind(kind), marks, tuple(parameters), variadic)
