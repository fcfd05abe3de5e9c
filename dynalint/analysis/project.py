"""A project's modules, and name resolution. `hierarchy` handles inheritance between its classes."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from dynalint.analysis import torch_api
from dynalint.analysis.build import build_module
from dynalint.analysis.disk import Disk, absolute, bounds
from dynalint.analysis.hierarchy import Hierarchy
from dynalint.analysis.index import FunctionInfo, ModuleInfo, children
from dynalint.analysis.kinds import Kind
from dynalint.analysis.namespaces import namespace_roots
from dynalint.analysis.source import SourceFile, Sources
from dynalint.analysis.steps import CHILD_FIELDS
from dynalint.profiling import charged, count

# Folders with third-party packages. Only packages that the user names are first-party there.
_SHARED_FOLDERS = ("site-packages", "dist-packages")


@dataclass(eq=False)
class Project(Hierarchy):
    """All of a project's code: the checked files and the first-party modules that they import.

    `disk` reads the files. `options` holds the rules' own settings.
    """

    checked: list[SourceFile] = field(default_factory=list)
    roots: list[Path] = field(default_factory=list)
    disk: Disk = field(default_factory=Disk)
    options: Mapping[str, object] = field(default_factory=dict)
    _by_name: dict[str, ModuleInfo | None] = field(default_factory=dict)
    _texts: dict[Path, bytes] = field(default_factory=dict)
    _kinds: dict[FunctionInfo, Mapping[ast.AST, Kind]] = field(default_factory=dict)
    _parents: dict[FunctionInfo, dict[ast.AST, ast.AST]] = field(default_factory=dict)
    _mentioning: dict[str, tuple[int, list[ModuleInfo]]] = field(default_factory=dict)
    _uses: dict[str, list[tuple[SourceFile, FunctionInfo | None, ast.Attribute]]] = field(default_factory=dict)
    asked: set[tuple[object, FunctionInfo]] = field(default_factory=set)
    """What the interpretation of other functions has found out from a function's text (see `analysis.revision`)."""
    answers: dict[object, Any] = field(default_factory=dict)
    """What rules have found out about the whole project."""

    api = torch_api

    @classmethod
    def load(
        cls,
        paths: Iterable[Path],
        *,
        search: Iterable[Path] = (),
        overrides: Mapping[Path, str] | None = None,
        options: Mapping[str, object] | None = None,
        sources: Sources | None = None,
    ) -> Project:
        """Read and index the files at `paths`.

        `search` lists additional folders where imports are looked up. `overrides` gives the text of some files as it
        would be after an edit, and `sources` reads the other files.
        """
        disk = Disk(sources, {absolute(path): text for path, text in (overrides or {}).items()})
        project = cls(disk=disk, options=options or {})
        files = [project.read(path) for path in paths]
        project.checked = files
        starts = [root for file in files for root in disk.import_roots(absolute(file.path))]
        starts += namespace_roots(starts, (file.text for file in files), disk)
        project.roots = list(dict.fromkeys([*starts, *(absolute(path) for path in search)]))
        for file in files:
            if file.tree is not None:
                project.add(file)
        return project

    def read(self, path: Path) -> SourceFile:
        """Read a file, or use its text from the overrides."""
        return self.disk.source(path)

    def add(self, file: SourceFile) -> ModuleInfo:
        """Index a file without syntax errors."""
        path = absolute(file.path)
        known = self.modules.get(path)
        if known is None:
            name = self.disk.module_name(path, self.roots)
            with charged("indexing"):
                known = self.modules[path] = build_module(name, file, path.name == "__init__.py")
                count("indexing")
            known.hierarchy = self
            self._by_name.setdefault(known.name, known)
        return known

    @cached_property
    def _packages(self) -> frozenset[str]:
        """Top-level names of the checked files. They are first-party even in a shared folder."""
        return frozenset(self.disk.package_root(absolute(file.path))[1][0] for file in self.checked)

    def find_module(self, name: str) -> ModuleInfo | None:
        """Return the first-party module with this dotted name, or None if there is none. It is read if necessary."""
        if name not in self._by_name:
            path = self.locate(name)
            known = None if path is None else self.modules.get(path)
            if path is not None and known is None:
                file = self.read(path)
                known = self.add(file) if file.tree is not None else None
            self._by_name[name] = known
        if self.interpreter is not None and self.interpreter.effects is not None and self._by_name[name] is not None:
            self.interpreter.note_effect("module", name)
        return self._by_name[name]

    def locate(self, name: str) -> Path | None:
        """Return the file of the first-party module with this dotted name, or None if there is none."""
        parts = name.split(".")
        if not name or parts[0] in EXTERNAL:
            return None
        for root in self.roots:
            if root.name in _SHARED_FOLDERS and parts[0] not in self._packages:
                continue
            path = self._locate(root, parts)
            if path is not None and self.is_own(path):
                return path
        return None

    def is_own(self, path: Path) -> bool:
        """Return whether a file, after resolving links, is in the same project as a checked file.

        Imports do not read any other files.
        """
        return path in self.modules or self.disk.is_inside(path, self._bounds)

    @cached_property
    def _bounds(self) -> frozenset[Path]:
        return bounds(file.path for file in self.checked)

    def may_bind(self, module: str, name: str) -> bool:
        """Return whether a star import of a module may bind `name`.

        This is the case if the module's text contains the name or another star import. Only the text is read, because
        parsing every module that a package's `__init__` collects is much more expensive.
        """
        if module in self._by_name:
            found = self._by_name[module]
            return found is not None and (name in found.file.text or bool(found.stars))
        path = self.locate(module)
        if path is None:
            return False
        text = self._texts.get(path)
        if text is None:
            text = self._texts[path] = self.disk.text(path) or b""
        return name.encode() in text or b"import *" in text

    def _locate(self, root: Path, parts: list[str]) -> Path | None:
        folder = root
        for part in parts[:-1]:
            if not self.disk.has(folder, part):
                return None
            folder = folder / part
        if self.disk.has(folder, parts[-1]) and self.disk.has(folder / parts[-1], "__init__.py"):
            return folder / parts[-1] / "__init__.py"
        return folder / f"{parts[-1]}.py" if self.disk.has(folder, f"{parts[-1]}.py") else None

    def is_checked(self, file: SourceFile) -> bool:
        """Return whether findings in this file are requested."""
        return file in self._checked_set

    @cached_property
    def _checked_set(self) -> frozenset[SourceFile]:
        return frozenset(self.checked)

    def forget(self, functions: Iterable[FunctionInfo]) -> None:
        """Forget what is known about the text of files, and about the nodes of functions, because they have changed."""
        for function in functions:
            self._kinds.pop(function, None)
            self._parents.pop(function, None)
        for known in (self._mentioning, self._uses, self._texts, self.answers):
            known.clear()
        for function in (one for module in self.modules.values() for one in module.functions):
            function.known.clear()  # it may contain what was found out from the functions that it calls
        self.__dict__.pop("_checked_set", None)

    # Queries from rules.

    def kinds(self, function: FunctionInfo) -> Mapping[ast.AST, Kind]:
        """Return the kind of every expression in a function, by node."""
        known = self._kinds.get(function)
        if known is None:
            assert self.interpreter is not None
            known = self._kinds[function] = self.interpreter.record_kinds(function)
        return known

    def may_unpack_tensor(self, node: ast.expr) -> bool:
        """Return whether `*node` in a call can unpack a tensor into arguments."""
        return self.interpreter is not None and node in self.interpreter.unpacked

    def parents(self, function: FunctionInfo) -> Mapping[ast.AST, ast.AST]:
        """Return the parent of every node in a function."""
        known = self._parents.get(function)
        if known is None:
            self._parents[function] = known = {}
            pending: list[ast.AST] = [function.node]
            for node in pending:
                if CHILD_FIELDS[type(node)]:
                    below = children(node)
                    known.update(dict.fromkeys(below, node))
                    pending += below
        return known

    def attribute_uses(self, name: str) -> list[tuple[SourceFile, FunctionInfo | None, ast.Attribute]]:
        """Return every `<something>.name` in the project's files, with the innermost function around it."""
        known = self._uses.get(name)
        if known is None:
            known = self._uses[name] = [
                (module.file, _function_at(module, node), node)
                for module, node in self.nodes_with(name)
                if isinstance(node, ast.Attribute) and node.attr == name
            ]
        return known

    def mentioning(self, text: str) -> list[ModuleInfo]:
        """Return the modules read so far whose text contains `text`, in the order in which they were read."""
        count, found = self._mentioning.get(text, (0, []))
        if count < len(self.modules):
            new = islice(self.modules.values(), count, None)
            found = [*found, *(module for module in new if text in module.file.text)]
            self._mentioning[text] = len(self.modules), found
        return found

    def nodes_with(self, name: str) -> Iterator[tuple[ModuleInfo, ast.AST]]:
        """Yield the nodes on lines that contain a name. Statements that do not contain the name are skipped."""
        word = re.escape(name)
        pattern = re.compile(rf"{word}(?<!\w{word})\b")  # a `\b` before the word would be much slower
        for module in self.mentioning(name):
            lines = [module.file.position(match.start())[0] for match in pattern.finditer(module.file.text)]
            yield from ((module, node) for node in self.nodes_on(module, lines))

    def nodes_on(self, module: ModuleInfo, lines: list[int]) -> Iterator[ast.AST]:
        """Yield the nodes of a module that span at least one of `lines`, which are sorted."""
        pending: list[ast.AST] = [*module.tree.body] if lines else []
        while pending:
            node = pending.pop()
            if _spans(node, lines):
                yield node
                pending.extend(ast.iter_child_nodes(node))

    def function_at(self, module: ModuleInfo, node: ast.AST) -> FunctionInfo | None:
        """Return the innermost function around a statement or expression, or None at the top level."""
        return _function_at(module, node)


# Packages that are never first-party, whichever folder is checked, because dynalint has its own data about them.
EXTERNAL = frozenset({"torch", "numpy", "typing", "builtins", "typing_extensions"})


def _spans(node: ast.AST, lines: list[int]) -> bool:
    """Return whether a node has no position or spans at least one of `lines`, which are sorted."""
    last = getattr(node, "end_lineno", None)
    if last is None:
        return True
    first = min([getattr(node, "lineno", 1), *(one.lineno for one in getattr(node, "decorator_list", ()))])
    index = bisect_left(lines, first)
    return index < len(lines) and lines[index] <= last


def _function_at(module: ModuleInfo, node: ast.AST) -> FunctionInfo | None:
    """Return the innermost function around a node."""
    best: FunctionInfo | None = None
    for function in module.functions:
        own = function.node
        line = getattr(node, "lineno", 0)
        inside = own.lineno <= line <= (own.end_lineno or own.lineno)
        if inside and (best is None or own.lineno >= best.node.lineno):
            best = function
    return best
