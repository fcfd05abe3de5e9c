"""Combine torch's declarations of a function with what its sample calls showed."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from dynalint.analysis.torch_api import FLAGS, Overload, Parameter
from dynalint.analysis.torch_kinds import TENSOR, UNKNOWN, ApiKind
from scripts.torch_api.observe import Seen
from scripts.torch_api.results import merge, settle

_ABSENT = "absent"
# Flags that hold for every call. Other flags hold for at least one call.
_OF_ALL_CALLS = {"elementwise", "data_dependent"}
_LETTER = {"tensor": "T", "int": "I", "float": "N", "complex": "N", "true": "t", "false": "f", "none": "?",
           "sequence": "L", "dtype": "D", "device": "V", "other": "O"}  # fmt: skip
# The properties that can depend on an argument, in the order in which they are tried, and how many arguments they can
# depend on.
_FLAGS_OF_OUTCOMES = frozenset({"dynamic_shape", "data_dependent", "random"})
_ATTEMPTS = (
    (_FLAGS_OF_OUTCOMES, True),
    (frozenset({"dynamic_shape", "data_dependent"}), True),
    (frozenset[str](), True),
    (frozenset[str](), False),
)
_MOST_DECIDING = 2


@dataclass(frozen=True)
class Outcome:
    """The differences between calls to an overload that matter to a caller."""

    structure: str
    flags: frozenset[str]


def combine(declared: Sequence[Overload], seen: Sequence[Seen]) -> list[Overload]:
    """Return an entry's overloads with the observed kinds and flags, one for each distinct result."""
    overloads = list({(one.parameters, one.variadic): one for one in reversed(declared)}.values())[::-1]
    overloads = overloads or [Overload(UNKNOWN)]
    calls = _by_overload(overloads, seen)
    found = [
        result
        for overload, own in zip(overloads, calls, strict=True)
        for result in (_split(overload, own) if own else [_like_others(overload, seen)])
    ]
    return _collapse(found)


def spell(overloads: Sequence[Overload]) -> str | list[str]:
    """Return an entry in the data file's format."""
    texts = [
        _result(overload) if overload.parameters is None else f"{_signature(overload)}->{_result(overload)}"
        for overload in overloads
    ]
    return texts[0] if len(texts) == 1 else texts


def refine(declared: ApiKind, shown: ApiKind) -> ApiKind:
    """Return the more precise kind of a result, given the declared and the observed kind."""
    if declared.name == "unknown" or shown == declared:
        return shown
    if shown.name == "unknown":
        return declared
    if declared.name == "union":
        same = [one for one in declared.items if _alike(one, shown)]
        rest = [one for one in declared.items if one not in same]
        return merge([*(refine(one, shown) for one in same[:1]), *rest]) if same else shown
    if declared.name == shown.name == "tuple":
        if declared.variadic:
            return ApiKind(
                "tuple", items=(refine(declared.items[0], merge(shown.items or declared.items)),), variadic=True
            )
        if len(declared.items) == len(shown.items):
            items = tuple(itertools.starmap(refine, zip(declared.items, shown.items, strict=True)))
            return ApiKind("tuple", items=items, fields=shown.fields or declared.fields)
    if declared.name == shown.name and len(declared.items) == len(shown.items) == 1:
        return replace(declared, items=(refine(declared.items[0], shown.items[0]),))
    return shown


def _alike(declared: ApiKind, shown: ApiKind) -> bool:
    if declared.name in ("unknown", "union"):
        return True
    plain = ("python", "data", "dim")
    return declared.name == shown.name or (declared.name in plain and shown.name in plain)


def _by_overload(overloads: Sequence[Overload], seen: Sequence[Seen]) -> list[list[Seen]]:
    """Assign each call to the overloads that accept it under the loader's rules and declare a result of its kind."""
    calls: list[list[Seen]] = [[] for _ in overloads]
    for one in seen:
        accepting = [
            (own, overload)
            for own, overload in zip(calls, overloads, strict=True)
            if len(overloads) == 1 or overload.accepts(one.positional, one.keywords)
        ]
        fitting = [own for own, overload in accepting if _alike(overload.kind, one.kind)]
        for own in fitting or [own for own, _ in accepting[:1]]:
            own.append(one)
    return calls


def _like_others(overload: Overload, seen: Sequence[Seen]) -> Overload:
    """Give an overload without calls what all the function's calls showed, if it returns the same kind of result."""
    names = {one.kind.name for one in seen}
    if overload.kind != TENSOR or len(names) != 1 or not names <= {"tensor", "self"}:
        return overload
    kind = settle(merge([_without_rank(one).kind for one in seen]))
    flags = frozenset.intersection(*(one.flags for one in _real(seen))) & {"mutating", "elementwise"}
    return replace(overload, kind=kind, flags=frozenset(flag for flag in FLAGS if flag in flags))


def _split(overload: Overload, seen: Sequence[Seen]) -> list[Overload]:
    """Return the overload with what its calls showed, split if the outcome depends on an argument."""
    informative = _telling_of_rank(seen)
    found = []
    for parameters, accepted in _decided(overload, informative):
        narrowed = replace(overload, parameters=parameters)
        group = [one for one in seen if accepted(one)]
        found.append(_seen_overload(narrowed, group, [one for one in informative if accepted(one)]))
    return found or [_seen_overload(overload, seen, informative)]


def _real(seen: Sequence[Seen]) -> Sequence[Seen]:
    """Return the calls without complex numbers or, if there are none, all calls.

    torch often computes with the parts of complex numbers.
    """
    return [one for one in seen if not one.complex] or seen


def _telling_of_rank(seen: Sequence[Seen]) -> Sequence[Seen]:
    """Return the calls that show the result's rank: those with matrices and higher ranks or, if none, with vectors.

    If these do not show everything that the function can do, return all calls and derive nothing about ranks.
    """
    whole = {_outcome(one, _FLAGS_OF_OUTCOMES, ranks=False) for one in seen}
    for least in (2, 1):
        found = [one for one in seen if one.rank is not None and one.rank >= least]
        if {_outcome(one, _FLAGS_OF_OUTCOMES, ranks=False) for one in found} == whole:
            return found
    return [_without_rank(one) for one in seen]


def _seen_overload(overload: Overload, seen: Sequence[Seen], informative: Sequence[Seen]) -> Overload:
    kind = merge([one.kind for one in informative])
    every = merge([_without_rank(one).kind for one in seen])
    unmixed = [_without_rank(one).kind for one in seen if not one.mixed]
    if unmixed:
        every = _sharper(every, merge(unmixed))
    shown = refine(overload.kind, _with_ranks_of(every, kind))
    flags = frozenset[str]().union(*(one.flags for one in seen)) - _OF_ALL_CALLS
    flags |= frozenset.intersection(*(one.flags for one in _real(seen))) & _OF_ALL_CALLS
    return replace(overload, kind=settle(shown), flags=frozenset(flag for flag in FLAGS if flag in flags))


Group = tuple[tuple[Parameter, ...], Callable[[Seen], bool]]


def _decided(overload: Overload, seen: Sequence[Seen]) -> list[Group]:
    """Return the smallest set of parameters whose arguments determine the outcome.

    It is empty if all outcomes agree or no set determines them.
    """
    if overload.parameters is None:
        return []
    bound = [_bind(overload, one) for one in seen]
    names = [parameter.name for parameter in overload.parameters]
    for flags, ranks in _ATTEMPTS:
        outcomes = [_outcome(one, flags, ranks=ranks, any_length=overload.kind.variadic) for one in seen]
        if len(set(outcomes)) == 1:
            return []
        for count in range(1, _MOST_DECIDING + 1):
            for chosen in itertools.combinations(names, count):
                table = _table(chosen, bound, outcomes)
                if table is not None:
                    return _groups(overload, chosen, bound, table)
    return []


def _outcome(seen: Seen, flags: frozenset[str], *, ranks: bool, any_length: bool = False) -> Outcome:
    return Outcome(_structure(seen.kind, ranks=ranks, any_length=any_length), seen.flags & flags)


def _structure(kind: ApiKind, *, ranks: bool, any_length: bool = False) -> str:
    if kind.name == "tensor":
        return "tensor@0" if ranks and kind.rank0 else "tensor"
    if kind.name in ("python", "data") and kind.type:
        return kind.name
    if kind.items:
        inner = [_structure(item, ranks=ranks and not any_length, any_length=any_length) for item in kind.items]
        return f"{kind.name}({','.join(sorted(set(inner)) if any_length else inner)})"
    return str(kind)


def _sharper(kind: ApiKind, unmixed: ApiKind) -> ApiKind:
    """Return `kind` with any dtype classes that vary taken from the calls without index tensors."""
    if kind.name != unmixed.name or len(kind.items) != len(unmixed.items):
        return kind
    letters = (two if one == "?" and two != "-" else one for one, two in zip(kind.dtypes, unmixed.dtypes, strict=True))
    items = tuple(itertools.starmap(_sharper, zip(kind.items, unmixed.items, strict=True)))
    return replace(kind, dtypes="".join(letters), items=items)


Table = dict[tuple[str, ...], Outcome]


def _table(chosen: tuple[str, ...], bound: Sequence[dict[str, str]], outcomes: Sequence[Outcome]) -> Table | None:
    """Return the outcome for each combination of arguments for the chosen parameters.

    Return None if these do not determine it.
    """
    table: Table = {}
    for arguments, outcome in zip(bound, outcomes, strict=True):
        key = tuple(arguments.get(name, _ABSENT) for name in chosen)
        if table.setdefault(key, outcome) != outcome:
            return None
    return table


def _groups(overload: Overload, chosen: tuple[str, ...], bound: Sequence[dict[str, str]], table: Table) -> list[Group]:
    """Return a narrowed signature for each outcome, with the calls that match it."""
    defaults = [_default(index, table) for index in range(len(chosen))]

    def key_of(arguments: dict[str, str]) -> tuple[str, ...]:
        return tuple(arguments.get(name, default) for name, default in zip(chosen, defaults, strict=True))

    spoken = {_with_defaults(key, defaults): outcome for key, outcome in table.items()}
    cells = [(tuple(frozenset({hint}) for hint in key), outcome) for key, outcome in sorted(spoken.items(), key=_first)]
    given = {name: all(name in arguments for arguments in bound) for name in chosen}
    found: list[Group] = []
    for cell, _ in _joined_cells(cells):
        keys = set(itertools.product(*cell))

        def accepted(one: Seen, keys: set[tuple[str, ...]] = keys) -> bool:
            return key_of(_bind(overload, one)) in keys

        hints = {
            name: own | {_ABSENT} if default in own else own
            for name, own, default in zip(chosen, cell, defaults, strict=True)
        }
        found.append((tuple(_narrowed(one, hints, given) for one in overload.parameters or ()), accepted))
    return found


def _default(index: int, table: Table) -> str:
    """Return the argument that has the same effect as omitting the parameter wherever both occurred, or `_ABSENT`."""
    rows: dict[str, dict[tuple[str, ...], Outcome]] = defaultdict(dict)
    for key, outcome in table.items():
        rows[key[index]][key[:index] + key[index + 1 :]] = outcome
    absent = rows.pop(_ABSENT, {})
    alike = [
        hint
        for hint, row in sorted(rows.items())
        if absent.keys() & row.keys() and all(row[rest] == absent[rest] for rest in absent.keys() & row.keys())
    ]
    return alike[0] if len(alike) == 1 else _ABSENT


def _with_defaults(key: tuple[str, ...], defaults: Sequence[str]) -> tuple[str, ...]:
    return tuple(default if hint == _ABSENT else hint for hint, default in zip(key, defaults, strict=True))


Cell = tuple[frozenset[str], ...]


def _joined_cells(cells: list[tuple[Cell, Outcome]]) -> list[tuple[Cell, Outcome]]:
    """Join cells that have the same outcome and differ in one parameter, until there are none left."""
    for (first, one), (second, other) in itertools.combinations(cells, 2):
        differing = [index for index, pair in enumerate(zip(first, second, strict=True)) if pair[0] != pair[1]]
        if one == other and len(differing) == 1:
            joined = tuple(left | right for left, right in zip(first, second, strict=True))
            rest = [cell for cell in cells if cell[0] not in (first, second)]
            return _joined_cells([(joined, one), *rest])
    return sorted(cells, key=lambda item: [sorted(hints) for hints in item[0]])


def _first(item: tuple[tuple[str, ...], Outcome]) -> tuple[str, ...]:
    return item[0]


def _narrowed(parameter: Parameter, cell: dict[str, frozenset[str]], always_given: dict[str, bool]) -> Parameter:
    """Return the parameter narrowed to a cell. If no call omitted it, its default is unknown."""
    if parameter.name not in cell:
        return parameter
    hints = cell[parameter.name]
    words = {hint.removeprefix("str:") for hint in hints if hint.startswith("str:")}
    letters = {_LETTER[hint] for hint in hints if hint in _LETTER}
    return replace(
        parameter,
        letters="".join(sorted(letters)),
        literals=tuple(sorted(words)),
        optional=_ABSENT in hints or (parameter.optional and always_given[parameter.name]),
    )


def _bind(overload: Overload, seen: Seen) -> dict[str, str]:
    slots = [parameter.name for parameter in overload.parameters or () if not parameter.keyword_only]
    return {**dict(zip(slots, seen.positional, strict=False)), **seen.keywords}


def _without_rank(seen: Seen) -> Seen:
    return replace(seen, kind=_flat(seen.kind))


def _flat(kind: ApiKind) -> ApiKind:
    return replace(kind, rank0=False, items=tuple(map(_flat, kind.items)))


def _with_ranks_of(kind: ApiKind, ranked: ApiKind) -> ApiKind:
    """Return `kind` with the ranks from `ranked` where their structure is the same."""
    if kind.name != ranked.name or len(kind.items) != len(ranked.items):
        return kind
    items = tuple(itertools.starmap(_with_ranks_of, zip(kind.items, ranked.items, strict=True)))
    return replace(kind, rank0=ranked.rank0, items=items)


def _collapse(overloads: Iterable[Overload]) -> list[Overload]:
    found = list(dict.fromkeys(overloads))
    if len({(overload.kind, overload.flags) for overload in found}) > 1:
        return found
    return [replace(found[0], parameters=_common_parameters(found), variadic=found[0].variadic)]


def _common_parameters(overloads: Sequence[Overload]) -> tuple[Parameter, ...] | None:
    """Return one signature for overloads that do the same, accepting what any of them accepts at each position."""
    if len(overloads) == 1:
        return overloads[0].parameters
    if any(overload.variadic or overload.parameters is None for overload in overloads):
        return None
    slots = [[one for one in overload.parameters or () if not one.keyword_only] for overload in overloads]
    columns = [[one for one in column if one is not None] for column in itertools.zip_longest(*slots)]
    return tuple(
        replace(
            column[0],
            letters="".join(sorted(set().union(*(one.letters for one in column)))),
            literals=tuple(sorted(set().union(*(one.literals for one in column)))),
            optional=len(column) < len(overloads) or any(one.optional for one in column),
        )
        for column in columns
    )


def _signature(overload: Overload) -> str:
    parts: list[str] = []
    keyword_only = False
    variadic = f"*{overload.variadic.name}:{overload.variadic.letters}" if overload.variadic else ""
    for parameter in overload.parameters or ():
        if parameter.keyword_only and not keyword_only:
            parts.append(variadic or "*")
            keyword_only = True
        takes = parameter.letters + "".join(f"'{word}'" for word in parameter.literals)
        parts.append(f"{parameter.name}:{takes}{'=' if parameter.optional else ''}")
    if variadic and not keyword_only:
        parts.append(variadic)
    return ",".join(parts)


def _result(overload: Overload) -> str:
    flags = " ".join(flag for flag in FLAGS if flag in overload.flags)
    return f"{overload.kind}{flags and f'!{flags}'}"
