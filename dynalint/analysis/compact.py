"""Syntax trees whose nodes keep their fields in slots, which take a third of the memory.

Each node of `ast` has a dict, which is much larger than the fields that it contains. `compacted` copies a tree to nodes
of classes that are derived from those of `ast`, with the same names and fields, so `isinstance` works as usual. To look
something up by a node's exact type, use `ByType`.
"""

from __future__ import annotations

import ast
import copyreg
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
Copier = Callable[[Any, list[int]], Any]

# Fields whose values are not copied, because they are not nodes, or because all trees share them.
_SHARED = frozenset("arg attr conversion ctx id is_async kind level module op ops simple type_comment".split())
_LINES = ("lineno", "end_lineno")
_NUMBERS: list[int] = []  # the numbers of lines, which all nodes share; otherwise, each node would have two of its own


class ByType(dict[type[ast.AST], T]):
    """Values by the type of a node. A derived type has the value of the type that it is derived from."""

    def __missing__(self, type_: type[ast.AST]) -> T:
        """Look up the type that a type is derived from.

        Raises:
            KeyError: If it has no value either.
        """
        base = type_.__base__
        if base is None or type_ is ast.AST:
            raise KeyError(type_)
        self[type_] = found = self[base]
        return found


def compacted(tree: ast.Module, lines: int) -> ast.Module:
    """Return a compact copy of a tree. The tree must not be used any more, because the copy takes over its lists.

    The text has at most `lines` lines.
    """
    _NUMBERS.extend(range(len(_NUMBERS), lines + 1))
    try:
        found: ast.Module = _COPIERS[ast.Module](tree, _NUMBERS)
    except (RecursionError, IndexError):  # nested too deeply, or a wrong position, as in f-strings before Python 3.12
        return tree  # in which some statements are compact already
    return found


class _Copiers(dict[type, Copier]):
    """A function for each type of value in a tree that returns a copy of a node, or any other value unchanged."""

    def __missing__(self, type_: type) -> Copier:
        names = _fields(type_) if issubclass(type_, ast.AST) else ()
        self[type_] = found = _copier(type_, names) if names else _same
        return found


_COPIERS = _Copiers()


def _fields(type_: type[ast.AST]) -> tuple[str, ...]:
    """Return the names of the fields of nodes, with those of their positions."""
    return (*type_._fields, *type_._attributes)  # noqa: SLF001 - the documented names


def _same(value: Any, numbers: list[int]) -> Any:
    return value


def _copier(type_: type[ast.AST], names: tuple[str, ...]) -> Copier:
    """Return a function that copies nodes of a type, with one statement for each field, which is the fastest way."""
    compact = _compact_type(type_, names)
    code = ["def copy(node, numbers):", "    new = make(compact)"]
    for name in names:
        if name in _LINES:
            code += [f"    new.{name} = numbers[node.{name}]"]
        elif name not in type_._fields or name in _SHARED or type_ is ast.Constant:
            code += [f"    new.{name} = node.{name}"]
        else:
            code += [
                f"    new.{name} = old = node.{name}",
                "    if old.__class__ is list:",
                "        index = 0",
                "        for one in old:",
                "            old[index] = copiers[one.__class__](one, numbers)",
                "            index += 1",
                "    elif old is not None:",
                f"        new.{name} = copiers[old.__class__](old, numbers)",
            ]
    variables: dict[str, Any] = {"make": compact.__new__, "compact": compact, "copiers": _COPIERS}
    exec("\n".join([*code, "    return new"]), variables)  # noqa: S102 - only names of fields, as in `dataclasses`
    made: Copier = variables["copy"]
    return made


def _compact_type(type_: type[ast.AST], names: tuple[str, ...]) -> type[ast.AST]:
    """Return a class for nodes of a type that keeps these fields in slots."""
    # `ast.dump` asks a class whether None is the default of a field, and would find the slot.
    optional = [name for name in names if getattr(type_, name, "") is None]
    metaclass = type("type", (type,), dict.fromkeys(optional, property(lambda _: None)))
    variables = {"__slots__": names, "__module__": "ast", "__reduce__": _reduced}
    found: type[ast.AST] = metaclass(type_.__name__, (type_,), variables)
    return found


def _reduced(node: ast.AST) -> tuple[Any, ...]:
    """Have `copy` make a node of `ast`, which can have any attributes."""
    base = type(node).__base__
    assert base is not None
    return copyreg.__newobj__, (base,), {name: getattr(node, name) for name in _fields(type(node))}  # type: ignore[attr-defined]
