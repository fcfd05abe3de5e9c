"""Arguments of torch functions that have to be integers, so that Dynamo reads the value of a tensor in their place."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache

from dynalint.rulekit import torch_api

# What always breaks the graph is not of interest.
_NAMES = [name.replace("torch.Tensor.", "Tensor.") for name in torch_api.with_integers() - torch_api.untraced().keys()]
# All functions and methods for which `integers` may yield something, named as in events. The data leaves out the
# parameters of some methods, but not those of the function with the same name.
TAKING_INTEGERS = frozenset(_NAMES) | {
    f"Tensor.{name}" for name in (one.removeprefix("torch.") for one in _NAMES) if torch_api.method(name) is not None
}
_Overloads = tuple[tuple[torch_api.Parameter, ...], ...]


def integers(callee: str, node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """Yield the arguments of a call that have to be integers or tuples of them, each with the parameter's name.

    A tensor was passed to each of them in torch's own sample calls (414 arguments), and all that ran broke the graph.
    So did the 35 functions that were run with a list that holds one. If arguments are passed with `*`, there are none.
    """
    overloads = _overloads(callee)
    if not overloads or any(isinstance(argument, ast.Starred) for argument in node.args):
        return
    for position, argument in enumerate(node.args):
        name = _name_at(overloads, position)
        if name and _is_integer(overloads, name):
            yield name, argument
    for keyword in node.keywords:
        if keyword.arg and _is_integer(overloads, keyword.arg):
            yield keyword.arg, keyword.value


def positions(callee: str, names: Sequence[str]) -> tuple[int, int]:
    """Return the positions from the first to the last of these parameters of a torch function, end excluded."""
    found = [at for ones in _overloads(callee) for at, one in enumerate(ones) if one.name in names]
    return min(found), max(found) + 1


def _name_at(overloads: _Overloads, position: int) -> str:
    """Return the name of the parameter at a position, or an empty string if overloads differ."""
    slots = [[one for one in parameters if not one.keyword_only] for parameters in overloads]
    names = {ones[position].name for ones in slots if position < len(ones)}
    return names.pop() if len(names) == 1 else ""


def _is_integer(overloads: _Overloads, name: str) -> bool:
    """Return whether a parameter takes integers in some overload, and neither a tensor nor other numbers in any."""
    found = [one for parameters in overloads for one in parameters if one.name == name]
    letters = set("".join(one.letters for one in found))
    whole = "I" in letters or ("L" in letters and name in torch_api.INTEGER_LISTS)
    return whole and letters <= set("IL?") and not any(one.literals for one in found)


@cache
def _overloads(callee: str) -> _Overloads:
    """Return the parameters of each overload, without a method's receiver, or nothing if some are not recorded."""
    name = callee.removeprefix("Tensor.")
    if name == callee:
        return _recorded(torch_api.function(callee)) if callee.startswith("torch.") else ()
    return _recorded(torch_api.method(name)) or tuple(one[1:] for one in _recorded(torch_api.function(f"torch.{name}")))


def _recorded(entry: torch_api.ApiEntry | None) -> _Overloads:
    found = [one.parameters for one in entry.overloads] if entry is not None else []
    return tuple(one for one in found if one is not None) if None not in found else ()
