"""Resolve names that are not local: variables of enclosing functions, module globals, imports and builtins."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from dynalint.analysis import kinds as k
from dynalint.analysis.build import bind_imports
from dynalint.analysis.dispatch import evaluate
from dynalint.analysis.externals import named_outside
from dynalint.analysis.frame import Context, Environment, Frame
from dynalint.analysis.index import ClassInfo, FunctionInfo, Import, ModuleInfo, walk_function
from dynalint.analysis.kinds import NOTHING, UNKNOWN, Kind, join, widened
from dynalint.analysis.passing import either_known
from dynalint.analysis.registries import Registries

if TYPE_CHECKING:
    from dynalint.analysis.frame import Engine

_BUILTINS = frozenset(dir(builtins))
# Packages with functions and classes that the analysis knows.
_KNOWN = frozenset({"numpy", "torch", *sys.stdlib_module_names})
# An indented `NAME["key"] = value`, as inside a function.
_ITEM_STORE = re.compile(r"^[ \t]+(\w+)\[[^\]\n]+\]\s*(?:[-+*/%|&]|//)?=(?!=)", re.MULTILINE)
# The names in a `global` statement anywhere in the text. A match in a docstring only makes a name less certain.
_GLOBAL = re.compile(r"global(?<!\wglobal)[ \t\\\n]+(\w+(?:[ \t\\\n]*,[ \t\\\n]*\w+)*)")
_NAME = re.compile(r"\w+")


class Scopes:
    """The scopes in a project. Each global is evaluated only once."""

    def __init__(self, interpreter: Engine) -> None:
        self._interpreter = interpreter
        self._registries = Registries(interpreter)
        self._globals: dict[tuple[ModuleInfo, str], Kind] = {}
        self._written: dict[ModuleInfo, frozenset[str]] = {}
        self._closures: dict[FunctionInfo, dict[Context | None, Environment]] = {}
        self._definitions: dict[FunctionInfo, dict[Context | None, Environment]] = {}
        self._readers: dict[FunctionInfo, dict[tuple[str, Context], Kind]] = {}

    def capture(self, function: FunctionInfo, env: Environment, context: Context | None) -> None:
        """Store the variables that one context has in a function, or around a nested function."""
        self._closures.setdefault(function, {})[context] = env
        if context is None or context.function is not function:
            self._definitions.setdefault(function, {})[context] = env
        readers = self._readers.get(function, {})
        for (name, reader), seen in readers.items():
            grown = either_known(seen, self._captured(function, name) or NOTHING)
            if grown != seen:
                readers[name, reader] = grown
                reader.outdated = True
                self._interpreter.enqueue(reader)

    def read_from(self, function: FunctionInfo) -> dict[str, Kind | None]:
        """Return the variables of a function that nested functions have read."""
        return {name: self._captured(function, name) for name, _ in self._readers.get(function, ())}

    def forget_text(self, module: ModuleInfo) -> None:
        """Forget what is known about a module's text, because it has changed."""
        self._written.pop(module, None)

    def _captured(self, function: FunctionInfo, name: str) -> Kind | None:
        """Return the join of a function's variable over all contexts, or None if there is no such variable."""
        found = [env[name] for env in self._closures.get(function, {}).values() if name in env]
        return reduce(either_known, found) if found else None

    def _around(self, function: FunctionInfo, name: str) -> Kind | None:
        """Return a variable around the definition of a nested function, without what the function binds itself."""
        found = [env[name] for env in self._definitions.get(function, {}).values() if name in env]
        return reduce(either_known, found) if found else None

    def lookup(self, frame: Frame, name: str) -> Kind:
        """Return the kind of a name from an enclosing function, the module, or the builtins."""
        function = frame.function
        if frame.context is not None and function is not None and function not in self._definitions:
            function = function.enclosing
        while function is not None:
            kind = self._read(frame, function, name)
            if kind is not None:
                return _closed_over(frame, name, kind)
            if (function is not frame.function or frame.context is None) and name in function.locals:
                return self._imported_in(function, name)
            function = function.enclosing
        return self.global_kind(frame.module, name)

    def _imported_in(self, function: FunctionInfo, name: str) -> Kind:
        """Return what an import in a function that nothing has called yet binds to a name."""
        imports = (node for node in walk_function(function.node) if isinstance(node, (ast.Import, ast.ImportFrom)))
        bound = (target for node in imports for one, target in bind_imports(function.module, node) if one == name)
        return next(map(self.imported, bound), UNKNOWN)

    def _read(self, frame: Frame, function: FunctionInfo, name: str) -> Kind | None:
        """Join the variable over all reads so far, because a nested function's call may see another value."""
        inside = function is frame.function and frame.context is not None
        kind = self._around(function, name) if inside else self._captured(function, name)
        if kind is not None and frame.context is not None and (not inside or function.enclosing):
            seen = self._readers.setdefault(function, {})
            kind = seen[name, frame.context] = either_known(seen.get((name, frame.context), NOTHING), kind)
        return kind

    def global_kind(self, module: ModuleInfo, name: str) -> Kind:
        """Return the kind of a module-level name or a builtin, or `UNKNOWN` for any other name."""
        key = (module, name)
        known = self._globals.get(key)
        if known is None:
            self._globals[key] = UNKNOWN  # handles circular bindings
            known = self._globals[key] = self._global_kind(module, name)
        found = name in module.bindings or module.stars
        if self._interpreter.effects is not None and found and not isinstance(known, k.External):
            self._interpreter.note_effect("global", module, name)
        return known

    def _global_kind(self, module: ModuleInfo, name: str) -> Kind:
        binding = module.bindings.get(name)
        if binding is not None and not isinstance(binding, list):
            kind, fallback = self._defined(binding), module.fallbacks.get(name)
            if fallback is None or self._says_something(kind):
                return kind
            other = self.in_scope(fallback, module, None) if isinstance(fallback, ast.expr) else self._defined(fallback)
            if other == k.NONE:
                return join(kind, other)  # it does not replace an optional package, but tells whether it is installed
            return kind if isinstance(other, k.External) and other.name.startswith("builtins.") else other
        if binding is not None:
            kind = k.join_all([self.in_scope(value, module, None) for value in binding])
            kind = _changing(kind) if len(binding) > 1 or name in self.written_globals(module) else kind
            kind = self.filled(kind, module, name)
            return k.with_home(kind, k.Home("global", name))
        if name.startswith("__") and name.endswith("__"):
            return UNKNOWN  # names such as `__file__` differ between modules
        # A name often starts with its module's name, so these modules are tried first to avoid reading all the others.
        likely = [star for star in module.stars if name.lower().startswith(star.rpartition(".")[2])]
        for star in dict.fromkeys([*likely, *module.stars]):
            kind = self._starred(star, name)
            if kind != UNKNOWN:
                return kind
        return k.External(f"builtins.{name}") if name in _BUILTINS else UNKNOWN

    def filled(self, kind: Kind, place: ModuleInfo | ClassInfo, name: str) -> Kind:
        """Return the kind of a global or an attribute of a class, with what other code registers in it."""
        return self._registries.filled(kind, place, name)

    def _defined(self, binding: Import | ClassInfo | FunctionInfo) -> Kind:
        if isinstance(binding, Import):
            return self.imported(binding)
        return k.Class(binding) if isinstance(binding, ClassInfo) else k.Function(binding)

    def _says_something(self, kind: Kind) -> bool:
        """Return whether anything is known about an import, unlike an optional package that has a replacement."""
        if not isinstance(kind, k.External):
            return not isinstance(kind, k.Unknown)
        return kind.name.partition(".")[0] in _KNOWN or self._interpreter.watched(kind.name) is not None

    def _starred(self, star: str, name: str) -> Kind:
        """Return the kind that `from star import *` binds to `name`, or `UNKNOWN` if it does not bind `name`."""
        if self._interpreter.project.locate(star) is not None:
            source = (
                self._interpreter.project.find_module(star) if self._interpreter.project.may_bind(star, name) else None
            )
            return UNKNOWN if source is None else self.global_kind(source, name)
        api = self._interpreter.project.api
        dotted = f"{star}.{name}"
        known = api.function(dotted) or api.torch_class(dotted) or api.constant(dotted)
        return named_outside(dotted) if known else UNKNOWN

    def imported(self, target: Import) -> Kind:
        """Return the kind of an imported name."""
        if target.attribute is None:
            module = self._interpreter.project.find_module(target.module)
            if module is not None:
                return k.Module(module)
            return k.External(target.module)
        source = self._interpreter.project.find_module(target.module)
        # In a package's `__init__.py`, `from . import name` binds the package's own submodule.
        if source is not None and source.bindings.get(target.attribute, target) != target:
            return self.global_kind(source, target.attribute)
        submodule = self._interpreter.project.find_module(f"{target.module}.{target.attribute}")
        if submodule is not None:
            return k.Module(submodule)
        if source is not None and (source.stars or not self._interpreter.exact):
            return self.global_kind(source, target.attribute) if source.stars else UNKNOWN
        return named_outside(f"{target.module}.{target.attribute}")

    def definition(self, module: ModuleInfo, name: str) -> tuple[list[ast.expr], ModuleInfo] | None:
        """Return the expressions that a project module assigns to a top-level name, and that module.

        An imported name is looked up in the module that defines it.
        """
        seen: set[tuple[ModuleInfo, str]] = set()
        while (module, name) not in seen:
            seen.add((module, name))
            binding = module.bindings.get(name)
            if isinstance(binding, list):
                return binding, module
            if isinstance(binding, Import) and binding.attribute is not None:
                source, name = self._interpreter.project.find_module(binding.module), binding.attribute
            elif binding is None:
                source = self._star_source(module, name)
            else:
                return None
            if source is None:
                return None
            module = source
        return None

    def _star_source(self, module: ModuleInfo, name: str) -> ModuleInfo | None:
        project = self._interpreter.project
        stars = [star for star in module.stars if project.locate(star) is not None and project.may_bind(star, name)]
        sources = [project.find_module(star) for star in stars]
        return next((one for one in sources if one is not None and (name in one.bindings or one.stars)), None)

    def written_globals(self, module: ModuleInfo) -> frozenset[str]:
        """Return the names of globals that a function in the module rebinds with `global`, or whose items it sets."""
        known = self._written.get(module)
        if known is None:
            text = module.file.text
            names = {name for listed in _GLOBAL.findall(text) for name in _NAME.findall(listed)}
            kept = [one for one, value in module.bindings.items() if isinstance(value, list) and f"{one}[" in text]
            if kept:
                names.update(name for name in _ITEM_STORE.findall(text) if name in kept)
            known = self._written[module] = frozenset(names)
        return known

    def in_scope(self, node: ast.expr, module: ModuleInfo, parent: FunctionInfo | None) -> Kind:
        """Return the kind of an expression at a module's top level or in a function's scope."""
        if isinstance(node, ast.Constant):
            return UNKNOWN if node.value is ... else k.constant(node.value)
        if parent is None and isinstance(node, ast.Name):
            kind = self.global_kind(module, node.id)
        else:
            frame = Frame(self._interpreter, module, parent)
            for env in self._closures.get(parent, {}).values() if parent else ():
                for name, kind in env.items():
                    frame.env[name] = either_known(frame.env.get(name, NOTHING), kind)
            kind = evaluate(frame, node)
        # A tensor that existed before the call is an input wherever it comes from, and tracing does not know its
        # elements.
        return replace(kind, foreseen=False) if isinstance(kind, k.Tensor) and not kind.array else kind


def _changing(kind: Kind) -> Kind:
    """Return the kind of a global whose value changes."""
    if isinstance(kind, k.Dictionary):
        items = tuple((key, widened(item)) for key, item in kind.items)
        return replace(kind, items=items, value=widened(kind.value), others=widened(kind.rest))
    return widened(kind)


def _closed_over(frame: Frame, name: str, kind: Kind) -> Kind:
    """Return the kind that an enclosing function's variable has in a nested function that may change it."""
    kind = k.lasting(widened(kind) if name in frame.globals else kind)
    is_local = isinstance(kind, (k.Sequence, k.Dictionary)) and kind.home is None
    return k.with_home(kind, k.Home("closure", name)) if is_local and k.is_mutable(kind) else kind
