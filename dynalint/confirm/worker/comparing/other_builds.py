"""Find other constructor arguments for a callable's own classes, to run code that no input reaches.

Code compares constructor arguments with numbers and strings. A value on the other side of the number, one of the
strings, or an inverted flag may reach different code. A bound for something else, such as the steps of a warm-up, is
reached sooner if it is small.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ..inputs.own_code import bounds_in, compared_in, nodes_of
from .observing import modules_of

_MOST = 12
_MOST_STEPS = 3


@dataclass(frozen=True)
class Build:
    """A different value for a constructor argument, used for every instance of the class."""

    module: str
    cls: str
    argument: str
    value: Any

    @property
    def words(self) -> str:
        """The change as a phrase, for use in messages."""
        return f"{self.cls} built with {self.argument}={self.value!r}"


def builds_of(function: Any, modules: Iterable[ModuleType]) -> Iterator[Build]:
    """Yield the first few other ways to build a callable, for its classes that are defined in these modules."""
    names = {module.__name__ for module in modules}
    classes = dict.fromkeys(type(part) for _, part in modules_of(function))
    own = [cls for cls in classes if cls.__module__ in names and "__init__" in vars(cls)]
    yield from itertools.islice((build for cls in own for build in _builds(cls, names)), _MOST)


def _builds(cls: type, modules: Container[str]) -> Iterator[Build]:
    """Yield other ways to build a class. Methods that it inherits from classes in `modules` count too."""
    signature = inspect.signature(vars(cls)["__init__"])
    parameters = [one for one in list(signature.parameters.values())[1:] if one.kind not in _SEVERAL]
    line = [one for one in cls.__mro__ if one.__module__ in modules]
    literals = _literals(line, [one.name for one in parameters])
    for parameter in parameters:
        values: list[Any] = [not parameter.default] if isinstance(parameter.default, bool) else []
        for literal in literals.get(parameter.name, ()):
            if isinstance(literal, bool):
                values += [literal, not literal]
            elif isinstance(literal, int | float):
                values += [literal + 0.5, literal + 1, literal, literal - 1]
            else:
                values.append(literal)
        for value in dict.fromkeys(values):
            if value is not parameter.default:
                yield Build(cls.__module__, cls.__qualname__, parameter.name, value)


_SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _literals(classes: Sequence[type], parameters: Iterable[str]) -> Mapping[str, list[Any]]:
    """Return what methods of classes compare each parameter with, under any name it has. For a bound, that is 1."""
    kept: dict[str, str] = {}
    functions = [one for cls in classes for one in vars(cls).values() if inspect.isfunction(one)]
    for node in (node for one in functions for node in nodes_of(one)):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute):
            kept.update({_name(target): _name(node.value) for target in node.targets})
    found: dict[str, list[Any]] = {}
    compared = [item for cls in classes for item in compared_in(cls).items()]
    for name, values in [*compared, *((one, [1]) for cls in classes for one in bounds_in(cls))]:
        for _ in range(_MOST_STEPS):
            if name in parameters:
                found.setdefault(name, []).extend(values)
                break
            name = kept.get(name, name)  # noqa: PLW2901 - followed to its origin
    return found


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


@contextmanager
def built(build: Build | None, modules: Iterable[ModuleType]) -> Iterator[None]:
    """Apply `build` to all instances created while this context is active, or change nothing if it is None."""
    with ExitStack() as stack:
        for module in modules if build is not None else ():
            cls = getattr(module, build.cls, None) if build is not None and module.__name__ == build.module else None
            if isinstance(cls, type) and "__init__" in vars(cls):
                assert build is not None
                stack.callback(setattr, cls, "__init__", vars(cls)["__init__"])
                cls.__init__ = _other(vars(cls)["__init__"], build)  # type: ignore[misc]
        yield


def _other(constructor: Any, build: Build) -> Any:
    signature = inspect.signature(constructor)

    @functools.wraps(constructor)
    def construct(*args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.arguments[build.argument] = build.value
        constructor(*bound.args, **bound.kwargs)

    return construct
