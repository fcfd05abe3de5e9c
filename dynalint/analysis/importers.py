"""Which files use which: the files in which a change to others may be felt, by what their code imports by name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from dynalint.analysis.build import absolute_module
from dynalint.analysis.index import Import, ModuleInfo
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk


class Importers:
    """Answers for the modules of a project that are known when it is made.

    A package that only hands names on does not tie together all that it gathers: who imports a name from it depends on
    the module that defines the name. Nor does it use them, unless its code mentions them once more.
    """

    def __init__(self, project: Project) -> None:
        self._modules = {module.name: module for module in project.modules.values()}
        self._packages = {name.partition(".")[0] for name in self._modules}
        self._known: dict[tuple[str, str], Collection[ModuleInfo] | None] = {}
        self._users: defaultdict[ModuleInfo, set[ModuleInfo]] = defaultdict(set)
        self._gatherers: defaultdict[ModuleInfo, set[ModuleInfo]] = defaultdict(set)
        for module in self._modules.values():
            mentioned = _mentioned(module.tree) if module.package else None
            for used, name in self._used(module):
                edges = self._users if mentioned is None or name in mentioned else self._gatherers
                edges[used].add(module)
        self._by_path = {module.file.path: module for module in self._modules.values()}

    def reached(self, paths: Iterable[Path]) -> frozenset[Path]:
        """Return these files, all that use what they define through whatever other files, and what hands that on."""
        found = {self._by_path[path]: None for path in paths if path in self._by_path}
        pending = list(found)
        for module in pending:
            new = [user for user in self._users[module] if user not in found]
            found.update(dict.fromkeys(new))
            pending += new
        gatherers = (module for used in found for module in self._gatherers[used])
        return frozenset(paths).union(module.file.path for module in (*found, *gatherers))

    def _used(self, module: ModuleInfo) -> Iterator[tuple[ModuleInfo, str]]:
        """Yield the modules that define what a module imports, some more than once, with its names for that."""
        for node in _imports(module.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    first = alias.name.partition(".")[0]
                    if first in self._packages:
                        yield from ((used, alias.asname or first) for used in self._spelled(module, alias))
                continue
            source = absolute_module(module, node)
            for alias in node.names if source in self._modules else ():
                if alias.name == "*":
                    yield from self._gathered(source)
                else:
                    yield from ((used, alias.asname or alias.name) for used in self._named(source, alias.name))

    def _spelled(self, module: ModuleInfo, alias: ast.alias) -> Iterator[ModuleInfo]:
        """Yield the modules that define what the text takes from an imported one, as in `package.module.name`."""
        bound = alias.asname or alias.name
        for match in re.finditer(rf"\b{re.escape(bound)}((?:\.\w+)*)", module.file.text):
            names = [*alias.name.split("."), *match[1].split(".")[1:]]
            ends = (end for end in range(len(names), 0, -1) if ".".join(names[:end]) in self._modules)
            end = next(ends, None)
            if end is not None:
                yield self._modules[".".join(names[:end])]
                yield from self._named(".".join(names[:end]), names[end]) if end < len(names) else ()

    def _gathered(self, source: str) -> Iterator[tuple[ModuleInfo, str]]:
        """Yield a module, those that it has star imports of, and all that define what these hand on, with its name."""
        found = {source: self._modules[source]}
        pending = [source]
        for name in pending:
            yield found[name], "*"
            for bound in found[name].bindings:
                yield from ((used, bound) for used in self._named(name, bound))
            stars = [star for star in found[name].stars if star in self._modules and star not in found]
            found.update({star: self._modules[star] for star in stars})
            pending += stars

    def _named(self, source: str, name: str) -> Collection[ModuleInfo]:
        """Return the modules that define a name of `source`, which is that itself where none is found."""
        found = self._definers(source, name)
        return found if found is not None else [self._modules[source]]

    def _definers(self, source: str, name: str) -> Collection[ModuleInfo] | None:
        """Return the modules that define the name that `source` gives out; None if it gives out none."""
        if (source, name) not in self._known:
            self._known[source, name] = None  # an answer for imports in a circle, which do not run anyway
            self._known[source, name] = self._looked_up(source, name)
        return self._known[source, name]

    def _looked_up(self, source: str, name: str) -> Collection[ModuleInfo] | None:
        module, inner = self._modules.get(source), self._modules.get(f"{source}.{name}")
        if inner is not None:
            return [inner]
        binding = None if module is None else module.bindings.get(name)
        if module is None or binding is None:
            found = [self._definers(star, name) for star in (module.stars if module is not None else ())]
            return next((one for one in found if one is not None), None)
        if isinstance(binding, Import):
            whole = self._modules.get(binding.module)
            if binding.attribute is not None:
                return (whole and self._definers(binding.module, binding.attribute)) or [module]
            return [whole] if whole is not None else []
        # A number or text, such as a version, is what it is.
        plain = isinstance(binding, list) and all(isinstance(value, ast.Constant) for value in binding)
        return [] if plain else [module]


def _mentioned(tree: ast.Module) -> set[str]:
    """Return the names in the code of a module, which import statements have none of."""
    return {node.id for node in walk(tree) if isinstance(node, ast.Name)}


def _imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the import statements of a module, however deep they stand; expressions hold none."""
    pending: list[ast.AST] = [*tree.body]
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            below = getattr(node, part, None)
            if isinstance(below, list):
                pending += below
