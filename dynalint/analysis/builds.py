"""Find where the project's classes are instantiated: in code that uses a model, or in a model that contains them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dynalint.analysis import kinds as k
from dynalint.analysis.doubts import is_test
from dynalint.analysis.index import ClassInfo, FunctionInfo, walk_function

if TYPE_CHECKING:
    from dynalint.analysis.project import Project


@dataclass(frozen=True, slots=True)
class Builds:
    """The code that instantiates classes.

    `places` maps a class to the first call outside models and tests that instantiates it. `parts` are the classes that
    models instantiate.
    """

    places: dict[ClassInfo, tuple[FunctionInfo, ast.Call]] = field(default_factory=dict)
    parts: set[ClassInfo] = field(default_factory=set)


def builds(project: Project) -> Builds:
    """Return where the checked files instantiate classes, if they refer to the class by its name."""
    found = Builds()
    for module in [one for one in project.modules.values() if project.is_checked(one.file)]:
        for function in (*module.functions, module.top):
            owner = _owner(function)
            inside = owner is not None and project.is_module_class(owner)
            for call, cls in _built_by(project, function):
                if inside and owner is not cls:
                    found.parts.add(cls)
                elif not inside and not is_test(function.file.path):
                    found.places.setdefault(cls, (function, call))
    return found


def _owner(function: FunctionInfo) -> ClassInfo | None:
    """Return the class that a function belongs to, directly or through an enclosing method."""
    while function.owner is None and function.parent is not None:
        function = function.parent
    return function.owner


def _built_by(project: Project, function: FunctionInfo) -> Iterator[tuple[ast.Call, ClassInfo]]:
    assert project.interpreter is not None
    for node in walk_function(function.node):
        if isinstance(node, ast.Call) and _is_global(node.func, function):
            kind = project.interpreter.scopes.in_scope(node.func, function.module, None)
            if isinstance(kind, k.Class):
                yield node, kind.cls


def _is_global(node: ast.expr, function: FunctionInfo) -> bool:
    """Return whether the first part of a dotted name is not local to the function."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and (function.name == "<module>" or node.id not in function.locals)
