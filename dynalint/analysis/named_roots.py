"""Roots that the settings name as "package.module:Name" or "path/file.py:Name"."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dynalint.analysis import kinds as k
from dynalint.analysis.index import ClassInfo, FunctionInfo, ModuleInfo

if TYPE_CHECKING:
    from dynalint.analysis.interpreter import Interpreter
    from dynalint.analysis.project import Project


def named_root(interpreter: Interpreter, name: str) -> FunctionInfo | None:
    """Return the function that is compiled for a model or function, which may be imported, or None if there is none."""
    where, _, qualname = name.rpartition(":")
    module = _module(interpreter.project, where)
    first, *rest = qualname.split(".")
    kind = k.UNKNOWN if module is None else interpreter.scopes.global_kind(module, first)
    for part in rest:
        kind = _inside(kind, part)
    if isinstance(kind, k.Function):
        return kind.function
    return interpreter.project.find_method(kind.cls, "forward") if isinstance(kind, k.Class | k.Instance) else None


def unknown_roots(interpreter: Interpreter, roots: str | Sequence[str]) -> list[str]:
    """Return the names in `roots` that do not match anything that could be compiled."""
    return [] if isinstance(roots, str) else [name for name in roots if named_root(interpreter, name) is None]


def name_of(project: Project, code: ClassInfo | FunctionInfo) -> str:
    """Return the name that the settings use for a class or function, which is its import name."""
    path = code.file.path
    imported = ".".join(project.disk.package_root(path)[1])
    module = imported if project.find_module(imported) is code.module else code.module.name
    return f"{module if all(map(str.isidentifier, module.split('.'))) else path.name}:{code.qualname}"


def _module(project: Project, where: str) -> ModuleInfo | None:
    if not where.endswith(".py"):
        return project.find_module(where)
    for folder in project.roots:
        path = folder / where
        if path in project.modules:
            return project.modules[path]
        if project.disk.is_file(path) and project.is_own(path):
            file = project.read(path)
            return project.add(file) if file.tree is not None else None
    ends = Path(where).parts
    return next((one for path, one in project.modules.items() if path.parts[-len(ends) :] == ends), None)


def _inside(kind: k.Kind, name: str) -> k.Kind:
    """Return the kind of the name `name` inside a class."""
    if not isinstance(kind, k.Class):
        return k.UNKNOWN
    if name in kind.cls.classes:
        return k.Class(kind.cls.classes[name])
    method = kind.cls.methods.get(name)
    return k.UNKNOWN if method is None else k.Function(method)
