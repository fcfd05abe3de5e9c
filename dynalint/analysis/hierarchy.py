"""Inheritance in the project, and the methods that a call on an instance of a class or its subclasses can reach.

The methods are found by class hierarchy analysis (J. Dean, D. Grove, C. Chambers, "Optimization of object-oriented
programs using static class hierarchy analysis", ECOOP 1995), with a refinement from rapid type analysis (D. Bacon, P.
Sweeney, "Fast static analysis of C++ virtual function calls", OOPSLA 1996), which only considers classes that may be
instantiated.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from dynalint.analysis import torch_api
from dynalint.analysis.index import ClassInfo, FunctionInfo, ModuleInfo, walk_function
from dynalint.analysis.kinds import NOTHING, Class, External, Instance, Kind, join, join_all, present
from dynalint.analysis.observers import observer
from dynalint.analysis.public import is_public_class

if TYPE_CHECKING:
    from pathlib import Path

    from dynalint.analysis.events import Event


Reached = tuple[tuple[FunctionInfo, Kind], ...]


class _Scopes(Protocol):
    def global_kind(self, module: ModuleInfo, name: str) -> Kind: ...
    def in_scope(self, node: ast.expr, module: ModuleInfo, parent: FunctionInfo | None) -> Kind: ...


class _Heirs(Protocol):
    def note_new(self, above: Iterable[ClassInfo]) -> None: ...


class _Context(Protocol):
    @property
    def function(self) -> FunctionInfo: ...
    @property
    def events(self) -> Mapping[tuple[object, ...], Event]: ...
    @property
    def callees(self) -> Collection[_Context]: ...


class KindSource(Protocol):
    """The interface of the interpreter, for a project and those who use it. The interpreter imports projects."""

    @property
    def exact(self) -> bool:
        """Whether the analysis is that of a single call."""
        ...

    @property
    def contexts(self) -> Mapping[FunctionInfo, Collection[_Context]]:
        """The contexts of each function that has been interpreted."""
        ...

    @property
    def scopes(self) -> _Scopes:
        """The scopes in the project."""
        ...

    @property
    def heirs(self) -> _Heirs:
        """The contexts that have queried a class's subclasses."""
        ...

    @property
    def effects(self) -> Mapping[tuple[object, ...], None] | None:
        """The recorded effects of the current run, if they are needed."""
        ...

    @property
    def unpacked(self) -> Collection[ast.expr]:
        """The arguments `*node` that may unpack a tensor."""
        ...

    def note_effect(self, *effect: object) -> None:
        """Record what a run does outside its own context."""
        ...

    def record_kinds(self, function: FunctionInfo) -> dict[ast.AST, Kind]:
        """Return the kind of each expression in a function."""
        ...


@dataclass(eq=False)
class Hierarchy:
    """The classes of the modules known so far.

    `holders` maps an attribute's name and a class to the subclasses that store the attribute.
    """

    modules: dict[Path, ModuleInfo] = field(default_factory=dict)
    interpreter: KindSource | None = None
    holders: dict[str, dict[ClassInfo, dict[ClassInfo, None]]] = field(default_factory=dict)
    _mro: dict[ClassInfo, tuple[list[ClassInfo], list[str]]] = field(default_factory=dict)
    _module_classes: dict[ClassInfo, bool] = field(default_factory=dict)
    _methods: dict[tuple[ClassInfo, str, ClassInfo | None], FunctionInfo | None] = field(default_factory=dict)
    _classes: list[ClassInfo] = field(default_factory=list)
    _filed: int = 0
    _held: dict[str, dict[ClassInfo, Kind]] = field(default_factory=dict)
    _definers: dict[str, list[ClassInfo]] = field(default_factory=dict)
    _built: set[ClassInfo] = field(default_factory=set)
    _abstract: dict[ClassInfo, bool] = field(default_factory=dict)
    _reached: dict[ClassInfo, dict[str, Reached]] = field(default_factory=dict)
    _below: dict[ClassInfo, list[ClassInfo]] = field(default_factory=dict)

    # Base classes.

    def lineage(self, cls: ClassInfo) -> tuple[list[ClassInfo], list[str]]:
        """Return the project classes that `cls` inherits from, itself first, and the dotted names of the other classes.

        The order is depth-first. A class that is reached twice is listed at its last position, which gives Python's
        order for all common hierarchies.
        """
        known = self._mro.get(cls)
        if known is not None:
            return known
        self._mro[cls] = ([cls], [])  # a class that inherits from itself cannot run anyway
        order: list[ClassInfo] = []
        external: list[str] = []
        for base in self.bases(cls):
            if isinstance(base, Class):
                classes, names = self.lineage(base.cls)
                order = [one for one in order if one not in classes] + classes
                external += names
            elif isinstance(base, External):
                external.append(torch_api.canonical(base.name))
            else:
                external.append("?")
        self._mro[cls] = result = ([cls, *order], list(dict.fromkeys(external)))
        return result

    def bases(self, cls: ClassInfo) -> list[Kind]:
        """Return the kinds of a class's bases. A base `Base[T]` has the kind of `Base`."""
        assert self.interpreter is not None
        named = (base.value if isinstance(base, ast.Subscript) else base for base in cls.node.bases)
        return [present(self.interpreter.scopes.in_scope(base, cls.module, cls.parent)) for base in named]

    def mro(self, cls: ClassInfo) -> list[ClassInfo]:
        """Return the project classes that `cls` inherits from, itself first."""
        known = self._mro.get(cls)
        return self.lineage(cls)[0] if known is None else known[0]

    def is_module_class(self, cls: ClassInfo) -> bool:
        """Return whether instances are `nn.Module`s.

        This is the case if a base is `nn.Module` or an unknown class that looks like a module.
        """
        known = self._module_classes.get(cls)
        if known is None:
            classes, names = self.lineage(cls)
            known = any(_is_torch_module(name) for name in names)
            if not known and any(not name.startswith(("torch.", "builtins.", "typing.", "abc.")) for name in names):
                forwards = [one for one in classes if "forward" in one.methods]
                known = any("__init__" in one.methods or "torch" in one.file.text for one in forwards)
            self._module_classes[cls] = known
        return known

    def find_method(self, cls: ClassInfo, name: str, after: ClassInfo | None = None) -> FunctionInfo | None:
        """Return the method `name` of `cls`.

        If `after` is given, return the next one after that class, as for `super()`.
        """
        key = (cls, name, after)
        try:
            return self._methods[key]
        except KeyError:
            classes = self.mro(cls)
            if after is not None and after in classes:
                classes = classes[classes.index(after) + 1 :]
            found = self._methods[key] = next((one.methods[name] for one in classes if name in one.methods), None)
            return found

    def class_attribute(self, cls: ClassInfo, name: str) -> Kind:
        """Return the join of the kinds stored in `self.name` by `cls` and its bases, or `NOTHING` if there are none."""
        holders = [one for one in self.mro(cls) if name in one.attributes]
        if not holders:
            return NOTHING
        found = holders[0].attributes[name]
        for one, base in pairwise(holders):
            own = [function.name for function, _ in one.stores.get(name, ()) if function.owner is one]
            if any(function == "__init__" or function in _called_at_first(one) for function in own):
                break  # what its bases store is replaced
            found = join(found, base.attributes[name])
        return found

    # Subclasses.

    @property
    def all_classes(self) -> list[ClassInfo]:
        """All classes in the modules known so far. Reading this fills `subclasses` of each class."""
        while self._filed < len(self.modules):  # looking up bases may load more modules
            new = list(self.modules.values())[self._filed :]
            self._filed += len(new)
            for cls in (cls for module in new for cls in module.classes):
                self._file(cls)
        return self._classes

    def _file(self, cls: ClassInfo) -> None:
        self._classes.append(cls)
        for name in cls.methods:
            self._definers.setdefault(name, []).append(cls)
        for base in self.mro(cls)[1:]:
            base.subclasses.append(cls)
        self._counts_now(cls)

    def note_built(self, cls: ClassInfo) -> None:
        """Record that a class may have instances."""
        if self.interpreter is not None:
            self.interpreter.note_effect("build", cls)
        if cls not in self._built:
            self._built.add(cls)
            if not is_public_class(cls):
                self._counts_now(cls)

    def _counts_now(self, cls: ClassInfo) -> None:
        """Repeat method lookups on the base classes of a class, because an instance of it can now be the receiver."""
        above = self.mro(cls)
        for base in above:
            self._reached.pop(base, None)
            self._below.pop(base, None)
        if self.interpreter is not None:
            self.interpreter.heirs.note_new(above)

    def may_be_built(self, cls: ClassInfo) -> bool:
        """Return whether a class itself may have instances.

        This is the case if it is not abstract, and the project or other code may instantiate it.
        """
        if cls not in self._built and not is_public_class(cls):
            return False
        known = self._abstract.get(cls)
        if known is None:
            names = {name for one in self.mro(cls) for name, own in one.methods.items() if _is_abstract(own)}
            methods = (self.find_method(cls, name) for name in names)
            known = self._abstract[cls] = any(method is not None and _is_abstract(method) for method in methods)
        return not known

    def below(self, cls: ClassInfo) -> list[ClassInfo]:
        """Return the class and its subclasses, without classes that have no instances."""
        _ = self.all_classes
        known = self._below.get(cls)
        if known is None:
            known = self._below[cls] = [cls, *(one for one in cls.subclasses if self.may_be_built(one))]
        return known

    def find_methods(self, instance: Instance, name: str) -> Reached:
        """Return the methods that calling `name` on an instance can reach, each with its receiver."""
        if not instance.below:
            method = self.find_method(instance.cls, name)
            return () if method is None else ((method, instance),)
        _ = self.all_classes
        known = self._reached.setdefault(instance.cls, {})
        if name not in known:
            known[name] = tuple(self._find_below(instance, name))
        return known[name]

    def _find_below(self, instance: Instance, name: str) -> Iterable[tuple[FunctionInfo, Kind]]:
        base = instance.cls
        inherited = self.find_method(base, name)
        definers, above = self._definers.get(name, []), self.mro(base)
        others = [cls for cls in definers if cls not in above]
        # Unless more than one class above defines the method, a class that inherits from no other definer has the
        # method of `base`.
        alike = len(definers) - len(others) <= 1
        different = {one for cls in others for one in (cls, *cls.subclasses)} if alike else set()
        having: dict[FunctionInfo | None, list[ClassInfo]] = {}
        for one in self.below(base):
            method = inherited if alike and one not in different else self.find_method(one, name)
            having.setdefault(method, []).append(one)
        if inherited is not None and inherited in having:
            yield inherited, instance
        for cls in definers:
            method = cls.methods[name]
            if cls is base or method is inherited:
                continue
            heirs = having.get(method, [])
            if heirs and base in self.mro(cls):
                yield method, Instance(cls, below=bool(cls.subclasses))
            elif heirs:
                yield method, join_all([Instance(one) for one in heirs])

    def join_subclasses(self, cls: ClassInfo, name: str) -> Kind:
        """Return the join of the kinds stored in attribute `name` by the subclasses of `cls`."""
        known = self._held.setdefault(name, {})
        if cls not in known:
            known[cls] = join_all([one.attribute(name) for one in self.holders.get(name, {}).get(cls, ())])
        return known[cls]

    def note_stored(self, cls: ClassInfo, name: str, kind: Kind) -> Iterator[ClassInfo]:
        """Record the kind stored in a class's attribute, and yield the base classes whose attribute this changes."""
        holders, known = self.holders.setdefault(name, {}), self._held.get(name, {})
        for base in self.mro(cls)[1:]:
            holders.setdefault(base, {})[cls] = None
            if base in known:
                joined = join(known[base], kind)
                if joined != known[base]:
                    known[base] = joined
                    yield base


def _is_abstract(method: FunctionInfo) -> bool:
    return "abstractmethod" in method.decorators


@cache
def _is_torch_module(name: str) -> bool:
    if name == "torch.nn.Module" or observer(name):
        return True
    found = torch_api.torch_class(name)
    return found is not None and found.is_module


def _called_at_first(cls: ClassInfo) -> frozenset[str]:
    """Return the names of the methods that the constructor calls on its object."""
    constructor = cls.methods.get("__init__")
    if constructor is None or not constructor.node.args.args:
        return frozenset()
    itself = constructor.node.args.args[0].arg
    calls = (node.func for node in walk_function(constructor.node) if isinstance(node, ast.Call))
    attributes = (one for one in calls if isinstance(one, ast.Attribute))
    return frozenset(one.attr for one in attributes if isinstance(one.value, ast.Name) and one.value.id == itself)
