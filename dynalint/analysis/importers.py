"""Which files use which: the files in which a change to others may be felt, by what their code imports by name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from dynalint.analysis.outlines import Imported, Outline
from dynalint.analysis.project import Project


def outlines_of(project: Project) -> list[Outline]:
    """Return the outlines of the modules of a project that are known by now."""
    modules = project.modules.values()
    return [Outline(one.file.path, one.name, one.package, one.file.text) for one in modules]


class Importers:
    """Answers for the files that it is given the outlines of; of several that hold a module of one name, the first.

    A package that only hands names on does not tie together all that it gathers: who imports a name from it depends on
    the module that defines the name. Nor does it use them, unless its code mentions them once more.
    """

    def __init__(self, outlines: Iterable[Outline]) -> None:
        self._modules: dict[str, Outline] = {}
        self._by_path: dict[Path, Outline] = {}
        for outline in outlines:
            self._modules.setdefault(outline.name, outline)
            self._by_path[outline.path] = outline
        self._packages = {name.partition(".")[0] for name in self._modules}
        self._known: dict[tuple[str, str], Collection[Outline] | None] = {}
        self._users: defaultdict[Outline, set[Outline]] = defaultdict(set)
        self._gatherers: defaultdict[Outline, set[Outline]] = defaultdict(set)
        for module in self._by_path.values():
            for used, name in self._used(module):
                edges = self._users if not module.package or name in module.mentioned else self._gatherers
                edges[used].add(module)

    def reached(self, paths: Iterable[Path]) -> frozenset[Path]:
        """Return these files, all that use what they define through whatever other files, and what hands that on."""
        found = dict.fromkeys(path for path in paths if path in self._by_path)
        new = list(found)
        while new:
            new = [path for path in self.users(new) if path not in found]
            found.update(dict.fromkeys(new))
        gatherers = (module.path for path in found for module in self._gatherers[self._by_path[path]])
        return frozenset(paths).union(found, gatherers)

    def users(self, paths: Iterable[Path]) -> frozenset[Path]:
        """Return the files that use what these define, without more files between."""
        known = (self._by_path[path] for path in paths if path in self._by_path)
        return frozenset(user.path for module in known for user in self._users[module])

    def above(self, paths: Iterable[Path]) -> frozenset[Path]:
        """Return the files with the classes that those in these files inherit from, through whatever other files."""
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
        """Yield the modules that define what a module imports, some more than once, with its names for that."""
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
        """Yield the modules that define what the text takes from an imported one, as in `package.module.name`."""
        for match in re.finditer(rf"\b{re.escape(one.bound)}((?:\.\w+)*)", module.text):
            yield from self._at([*one.module.split("."), *match[1].split(".")[1:]])

    def _defining(self, module: Outline, name: str) -> Iterator[Outline]:
        """Yield the modules that define what a module knows by a dotted name, itself aside."""
        first, *rest = name.split(".")
        one = module.bindings.get(first)
        if one is not None:
            yield from self._at([*one.module.split("."), *([one.attribute] if one.attribute else []), *rest])
        elif first not in module.bindings:
            found = (self._definers(star, first) for star in module.stars)
            yield from next((definers for definers in found if definers), ())

    def _at(self, names: list[str]) -> Iterator[Outline]:
        """Yield the module that a dotted name begins with, and those that define what comes next."""
        ends = (end for end in range(len(names), 0, -1) if ".".join(names[:end]) in self._modules)
        end = next(ends, None)
        if end is not None:
            yield self._modules[".".join(names[:end])]
            yield from self._named(".".join(names[:end]), names[end]) if end < len(names) else ()

    def _gathered(self, source: str) -> Iterator[tuple[Outline, str]]:
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

    def _named(self, source: str, name: str) -> Collection[Outline]:
        """Return the modules that define a name of `source`, which is that itself where none is found."""
        found = self._definers(source, name)
        return found if found is not None else [self._modules[source]]

    def _definers(self, source: str, name: str) -> Collection[Outline] | None:
        """Return the modules that define the name that `source` gives out; None if it gives out none."""
        if (source, name) not in self._known:
            self._known[source, name] = None  # an answer for imports in a circle, which do not run anyway
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
