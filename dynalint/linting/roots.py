"""The compiled roots named in settings. Report invalid roots, and suggest roots based on the code."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dynalint.analysis import Analysis
from dynalint.analysis import kinds as k
from dynalint.analysis.doubts import is_test
from dynalint.analysis.index import ClassInfo, FunctionInfo, walk_function
from dynalint.analysis.named_roots import name_of
from dynalint.analysis.project import Project
from dynalint.config import Settings
from dynalint.config.values import nearest


def complaints(settings: Settings, analysis: Analysis) -> Iterator[str]:
    """Yield a sentence for each root in the settings that is not in the project."""
    names = [name_of(analysis.project, one) for one in _models(analysis.project)] if analysis.unknown_roots else []
    for name in analysis.unknown_roots:
        place = settings.origins.get("roots", "settings")
        yield f'{place}: `roots`: there is no function or class named "{name}"{nearest(name, names)}'


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Suggested roots with the reason for each, and the number of models that were left out, by reason."""

    roots: dict[str, str]
    left_out: Mapping[str, int]


def suggestions(analysis: Analysis, shown: Callable[[Path], str]) -> Suggestions:
    """Suggest roots for the settings: code that the project compiles or builds, and models that no other model uses.

    `shown` returns the displayed form of a path.
    """
    project, made = analysis.project, _builds(analysis.project)
    ranked: dict[str, tuple[int, str]] = {}
    left_out: Counter[str] = Counter()
    for function in (one for one in analysis.roots if one.compiled and one.owner is None and one.parent is None):
        if project.is_checked(function.file) and _is_named(function):
            ranked[name_of(project, function)] = (0, "the project compiles it")
    for cls in _models(project):
        forward = project.find_method(cls, "forward")
        if forward is None or not project.is_checked(cls.file) or not _is_named(cls):
            continue
        place = made.places.get(cls)
        if forward.compiled and forward.owner is cls:
            ranked[name_of(project, cls)] = (0, "the project compiles it")
        elif forward.doubt or not forward.reached:
            left_out["rarely compiled"] += 1
        elif cls in made.parts or _is_called(forward, cls):
            left_out["submodules of other models"] += 1
        elif place is not None:
            function, call = place
            ranked[name_of(project, cls)] = (1, f"built in {shown(function.file.path)}:{call.lineno}")
        elif cls.subclasses:
            left_out["base classes of other models"] += 1
        elif cls.name.startswith("_"):
            left_out["private"] += 1
        else:
            ranked[name_of(project, cls)] = (2, "no model builds it")
    ordered = sorted(ranked, key=lambda name: (ranked[name][0], name))
    return Suggestions({name: ranked[name][1] for name in ordered}, left_out)


def _is_named(code: ClassInfo | FunctionInfo) -> bool:
    """Return whether settings can name the code. Compiler calls in tests are found anyway."""
    return code.file.path.suffix == ".py" and not is_test(code.file.path)


def _models(project: Project) -> Iterator[ClassInfo]:
    for cls in project.all_classes:
        if project.is_module_class(cls) and cls.parent is None:
            yield cls


def _is_called(forward: FunctionInfo, cls: ClassInfo) -> bool:
    """Return whether a model is called by compiled code other than its own subclasses."""
    heirs = {cls, *cls.subclasses}
    return forward.owner is cls and any(caller.owner not in heirs for caller in forward.called_by)


@dataclass(frozen=True, slots=True)
class _Builds:
    """The code that instantiates classes.

    `places` maps a class to the first call outside models and tests that instantiates it. `parts` are the classes that
    models instantiate.
    """

    places: dict[ClassInfo, tuple[FunctionInfo, ast.Call]] = field(default_factory=dict)
    parts: set[ClassInfo] = field(default_factory=set)


def _builds(project: Project) -> _Builds:
    """Return where the checked files instantiate classes, if they refer to the class by its name."""
    found = _Builds()
    for module in [one for one in project.modules.values() if project.is_checked(one.file)]:
        for function in (*module.functions, module.top):
            owner = _class_around(function)
            inside = owner is not None and project.is_module_class(owner)
            for call, cls in _built_by(project, function):
                if inside and owner is not cls:
                    found.parts.add(cls)
                elif not inside and not is_test(function.file.path):
                    found.places.setdefault(cls, (function, call))
    return found


def _class_around(function: FunctionInfo) -> ClassInfo | None:
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
