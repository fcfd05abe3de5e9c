"""Dependencies between files, which show what a change to some files may affect.

The dependencies are derived from the names that files import.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from dynalint.analysis.outlines import Imported, Outline
from dynalint.analysis.project import Project


def outlines_of(project: Project) -> list[Outline]:
    """Return the outlines of the modules in a project that are known so far."""
    modules = project.modules.values()
    return [Outline(one.file.path, one.name, one.package, one.file.text) for one in modules]


class Importers:
    """Dependencies between files with the given outlines. If more than one has the same module name, the first is used.

    A package that only re-exports names does not connect all the modules that it collects, because importing a name
    depends on the module that defines the name. Re-exporting a name does not count as using it either, unless the code
    mentions the name again.
    """

    def __init__(self, outlines: Iterable[Outline]) -> None:
        self._modules: dict[str, Outline] = {}
        self._by_path: dict[Path, Outline] = {}
        for outline in outlines:
            self._modules.setdefault(outline.name, outline)
            self._by_path[outline.path] = outline
        for name in list(self._modules):
            # A script above `src` makes the module's name `src.package.module`, but code imports `package.module`.
            parts = name.split(".")
            first = next(end for end in range(1, len(parts) + 1) if ".".join(parts[:end]) in self._modules)
            self._modules.setdefault(".".join(parts[first - 1 :]), self._modules[name])
        self._packages = {name.partition(".")[0] for name in self._modules}
        self._known: dict[tuple[str, str], Collection[Outline] | None] = {}
        self._users: defaultdict[Outline, set[Outline]] = defaultdict(set)
        self._gatherers: defaultdict[Outline, set[Outline]] = defaultdict(set)
        for module in self._by_path.values():
            for used, name in self._used(module):
                edges = self._users if not module.package or name in module.mentioned else self._gatherers
                edges[used].add(module)

    def reached(self, paths: Iterable[Path]) -> frozenset[Path]:
        """Return the given files, their direct and indirect users, and the files that re-export their definitions."""
        found = dict.fromkeys(path for path in paths if path in self._by_path)
        new = list(found)
        while new:
            new = [path for path in self.users(new) if path not in found]
            found.update(dict.fromkeys(new))
        gatherers = (module.path for path in found for module in self._gatherers[self._by_path[path]])
        return frozenset(paths).union(found, gatherers)

    def users(self, paths: Iterable[Path]) -> frozenset[Path]:
        """Return the files that directly use definitions in the given files."""
        known = (self._by_path[path] for path in paths if path in self._by_path)
        return frozenset(user.path for module in known for user in self._users[module])

    def above(self, paths: Iterable[Path]) -> frozenset[Path]:
        """Return the files that define direct or indirect base classes of the classes in the given files."""
        found: dict[Path, None] = {}
        pending = [path for path in paths if path in self._by_path]
        for path in pending:
            outline = self._by_path[path]
            bases = (base for name in outline.bases for base in self._defining(outline, name))
            new = [base.path for base in bases if base.path not in found]
            found.update(dict.fromkeys(new))
            pending += new
        return frozenset(found)

    def _used(self, module: Outline) -> Iterator[tuple[Outline, str]]:
        """Yield the modules that define what a module imports, each with the name used there, possibly repeatedly."""
        for one in module.imports:
            if one.module.partition(".")[0] not in self._packages:
                continue
            if one.attribute is None:
                yield from ((used, one.bound.partition(".")[0]) for used in self._spelled(module, one))
            elif one.module in self._modules:
                if one.attribute == "*":
                    yield from self._gathered(one.module)
                else:
                    yield from ((used, one.bound) for used in self._named(one.module, one.attribute))

    def _spelled(self, module: Outline, one: Imported) -> Iterator[Outline]:
        """Yield the modules that define names read from an imported module, as in `package.module.name`."""
        for match in re.finditer(rf"\b{re.escape(one.bound)}((?:\.\w+)*)", module.text):
            yield from self._at([*one.module.split("."), *match[1].split(".")[1:]])

    def _defining(self, module: Outline, name: str) -> Iterator[Outline]:
        """Yield the other modules that define a dotted name that a module uses."""
        first, *rest = name.split(".")
        one = module.bindings.get(first)
        if one is not None:
            yield from self._at([*one.module.split("."), *([one.attribute] if one.attribute else []), *rest])
        elif first not in module.bindings:
            found = (self._definers(star, first) for star in module.stars)
            yield from next((definers for definers in found if definers), ())

    def _at(self, names: list[str]) -> Iterator[Outline]:
        """Yield the module that a dotted name starts with, and the modules that define the next part."""
        ends = (end for end in range(len(names), 0, -1) if ".".join(names[:end]) in self._modules)
        end = next(ends, None)
        if end is not None:
            yield self._modules[".".join(names[:end])]
            yield from self._named(".".join(names[:end]), names[end]) if end < len(names) else ()

    def _gathered(self, source: str) -> Iterator[tuple[Outline, str]]:
        """Yield the modules behind a star import of `source`, each with the names used from it.

        They are `source`, the modules that it star-imports, and the modules that define the names that any of these
        re-export.
        """
        found = {source: self._modules[source]}
        pending = [source]
        for name in pending:
            yield found[name], "*"
            for bound in found[name].bindings:
                yield from ((used, bound) for used in self._named(name, bound))
            stars = [star for star in found[name].stars if star in self._modules and star not in found]
            found.update({star: self._modules[star] for star in stars})
            pending += stars

    def _named(self, source: str, name: str) -> Collection[Outline]:
        """Return the modules that define a name found in `source`, or `source` itself if there are none."""
        found = self._definers(source, name)
        return found if found is not None else [self._modules[source]]

    def _definers(self, source: str, name: str) -> Collection[Outline] | None:
        """Return the modules that define a name exported by `source`, or None if `source` does not export it."""
        if (source, name) not in self._known:
            self._known[source, name] = None  # circular imports cannot run anyway
            self._known[source, name] = self._looked_up(source, name)
        return self._known[source, name]

    def _looked_up(self, source: str, name: str) -> Collection[Outline] | None:
        module, inner = self._modules.get(source), self._modules.get(f"{source}.{name}")
        if inner is not None:
            return [inner]
        if module is None or name not in module.bindings:
            found = [self._definers(star, name) for star in (module.stars if module is not None else ())]
            return next((one for one in found if one is not None), None)
        binding = module.bindings[name]
        if binding is None:
            return [] if name in module.plain else [module]
        whole = self._modules.get(binding.module)
        if binding.attribute is not None:
            return (whole and self._definers(binding.module, binding.attribute)) or [module]
        return [whole] if whole is not None else []
