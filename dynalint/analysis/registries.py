"""Registries: dicts and lists that other code fills with functions and classes, often by way of a decorator.

What a registry holds is found without interpreting anything: values stored at the top level of a module, and functions
and classes that are passed to a function that stores its parameter. The name under which something is stored is
ignored, so that a registry gives any of its values.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from dynalint.analysis import kinds as k
from dynalint.analysis.index import ClassInfo, FunctionInfo, ModuleInfo, children
from dynalint.analysis.kinds import NOTHING, Kind, join
from dynalint.analysis.steps import all_nodes, note_cut

if TYPE_CHECKING:
    from dynalint.analysis.frame import Engine

_STORE = r"(?:\[[^\n]*\]\s*=(?!=)|\.(?:update|setdefault|append)\()"
# A registry that holds more than this is as good as unknown, and calling each of its functions would take long. It is
# treated like one that code outside the project fills.
_MOST = 64
_CALLS = (".update(", ".setdefault(", ".append(")
_Definition = FunctionInfo | ClassInfo
_Use = tuple[ModuleInfo, _Definition | ast.Call]


class Registries:
    """The registries in a project. Each is searched for once, when it is first read."""

    def __init__(self, interpreter: Engine) -> None:
        self._interpreter = interpreter
        self._known: dict[tuple[ModuleInfo | ClassInfo, str], Kind] = {}
        self._uses: dict[str, list[_Use]] = {}
        self._read = self._indexed = 0
        self._binding: dict[str, list[ModuleInfo]] = {}

    def filled(self, kind: Kind, place: ModuleInfo | ClassInfo, name: str) -> Kind:
        """Return the kind of a global or an attribute of a class, with what other code registers in it."""
        if not isinstance(kind, k.Dictionary) and not (isinstance(kind, k.Sequence) and kind.type == "list"):
            return kind
        known = self._known.get((place, name))
        if known is None:
            self._known[place, name] = NOTHING  # what is stored may refer to the registry itself
            found = list(islice(dict.fromkeys(self._registered(place, name)), _MOST + 1))
            known = self._known[place, name] = NOTHING if len(found) > _MOST else k.join_all(found)
            if len(found) > _MOST:
                note_cut(f"`{name}` holds more than {_MOST} functions or classes, which are not followed")
        if known is NOTHING:
            return kind
        if isinstance(kind, k.Dictionary):
            return replace(kind, value=join(kind.value, known), others=join(kind.rest, known))
        return replace(kind, element=join(kind.element, known), items=None)

    def _registered(self, place: ModuleInfo | ClassInfo, name: str) -> Iterator[Kind]:
        """Yield the functions and classes that code stores in a registry."""
        project = self._interpreter.project
        for module in self._modules(place, name):
            for node in project.nodes_on(module, _lines_with_stores(module, name)):
                for target, value in stores(node):
                    if _is_at(target, place, name):
                        yield from self._stored(value, module, project.function_at(module, node))

    def _modules(self, place: ModuleInfo | ClassInfo, name: str) -> list[ModuleInfo]:
        """Return the modules in which a registry has this name."""
        if isinstance(place, ClassInfo):
            return [place.module]
        modules = self._interpreter.project.modules
        for module in islice(modules.values(), self._indexed, None):
            for bound in module.bindings:
                self._binding.setdefault(bound, []).append(module)
        self._indexed = len(modules)
        return [one for one in [*self._binding.get(name, ())] if one is place or self._is_bound(one, name, place)]

    def _is_bound(self, module: ModuleInfo, name: str, place: ModuleInfo) -> bool:
        defined = self._interpreter.scopes.definition(module, name)
        return defined is not None and defined[1] is place

    def _stored(self, value: ast.expr, module: ModuleInfo, function: FunctionInfo | None) -> Iterator[Kind]:
        """Yield what a stored expression may be."""
        if function is None:
            yield from _code(self._interpreter.scopes.in_scope(value, module, None))
            return
        taking = function
        while isinstance(value, ast.Name) and value.id not in _parameters(taking):
            if taking.parent is None:
                return
            taking = taking.parent
        if isinstance(value, ast.Name):
            yield from self._given(taking, value.id)

    def _given(self, function: FunctionInfo, parameter: str) -> Iterator[Kind]:
        """Yield what the code passes as a parameter of a function, or of the function that the function returns."""
        maker = function.parent or function
        if maker.parent is not None:
            return
        own = _parameters(function)[0 if function.owner is None else 1 :]
        if function.name == "__init_subclass__" and function.owner is not None and parameter not in own:
            yield from (
                k.Class(cls) for cls in self._interpreter.project.all_classes if function.owner in cls.above[1:]
            )
            return
        made = maker is not function
        for module, node in self._uses_of(maker.name):
            if isinstance(node, ast.Call):
                if self._applies(node.func, module, maker, made=made):
                    by_name = [one.value for one in node.keywords if one.arg == parameter]
                    place = own.index(parameter) if parameter in own else len(node.args)
                    for value in by_name or node.args[place : place + 1]:
                        yield from _code(self._interpreter.scopes.in_scope(value, module, None))
            elif own[:1] == [parameter] and any(
                self._applies(one, module, maker, made=made) for one in getattr(node.node, "decorator_list", ())
            ):
                yield k.Class(node) if isinstance(node, ClassInfo) else k.Function(node)

    def _uses_of(self, name: str) -> list[_Use]:
        """Return the definitions at the top level with a decorator of this name, and the calls of that name there."""
        modules = self._interpreter.project.modules
        if self._read < len(modules):
            for module in islice(modules.values(), self._read, None):
                for name_, node in _uses(module):
                    self._uses.setdefault(name_, []).append((module, node))
            self._read = len(modules)
        return self._uses.get(name, [])

    def _applies(self, node: ast.expr, module: ModuleInfo, maker: FunctionInfo, *, made: bool) -> bool:
        """Return whether an expression is the function `maker` or, if `made`, a call of it."""
        if isinstance(node, ast.Call) is not made:
            return False
        target = node.func if isinstance(node, ast.Call) else node
        if isinstance(target, ast.Call) or _called(target) != maker.name:
            return False
        kind = self._interpreter.scopes.in_scope(target, module, None)
        return any(isinstance(one, k.Function) and one.function is maker for one in kind.members)


def _lines_with_stores(module: ModuleInfo, name: str) -> list[int]:
    """Return the lines that may store something in a container with this name, judging by the text."""
    text = module.file.text
    if f"{name}[" not in text and not any(f"{name}{call}" in text for call in _CALLS):
        return []
    pattern = re.compile(rf"{re.escape(name)}(?<!\w{re.escape(name)}){_STORE}")
    return [module.file.position(match.start())[0] for match in pattern.finditer(text)]


def _uses(module: ModuleInfo) -> Iterator[tuple[str, _Definition | ast.Call]]:
    """Yield the calls and the decorated definitions at a module's top level, with the name that each uses."""
    top: list[_Definition] = [one for one in module.functions if one.owner is None and one.parent is None]
    top += [one for one in module.classes if one.parent is None]
    for definition in top:
        decorators = getattr(definition.node, "decorator_list", ())
        yield from ((name, definition) for name in dict.fromkeys(map(_called, decorators)))
    pending: list[ast.stmt] = list(module.tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Expr, ast.Assign)):
            if isinstance(node.value, ast.Call):
                yield _called(node.value), node.value
        elif isinstance(node, (ast.If, ast.For, ast.With, ast.Try)):
            pending += (one for one in children(node) if isinstance(one, ast.stmt))


def _called(node: ast.expr) -> str:
    """Return the last part of the name of what is called: "register" for `@models.register("small")`."""
    while isinstance(node, ast.Call):
        node = node.func
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def stores(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the containers that a statement or call stores something in, each with the value."""
    if isinstance(node, ast.Assign):
        yield from ((one.value, node.value) for one in node.targets if isinstance(one, ast.Subscript))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    base, method, args = node.func.value, node.func.attr, node.args
    if method == "update":
        given = args[0].values if args and isinstance(args[0], ast.Dict) else []
        yield from ((base, value) for value in [*given, *(one.value for one in node.keywords if one.arg)])
    elif method in ("append", "setdefault"):
        yield from ((base, value) for value in args[-1:] if len(args) == 1 + (method == "setdefault"))


def registering(function: FunctionInfo) -> list[str]:
    """Return the statements in a function that store one of its parameters, or one of a function inside it."""
    inside = all_nodes(function.node)
    names = {one.arg for one in inside if isinstance(one, ast.arg)}
    found = [(target, value) for node in inside for target, value in stores(node)]
    kept = [pair for pair in found if isinstance(pair[1], ast.Name) and pair[1].id in names]
    return [f"{ast.unparse(target)} {ast.unparse(value)}" for target, value in kept]


def _is_at(node: ast.expr, place: ModuleInfo | ClassInfo, name: str) -> bool:
    if isinstance(place, ModuleInfo):
        return isinstance(node, ast.Name) and node.id == name
    return isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.value, ast.Name)


def _parameters(function: FunctionInfo) -> list[str]:
    arguments = function.node.args
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _code(kind: Kind) -> Iterator[Kind]:
    """Yield the functions and classes of the project that a value may be."""
    for one in kind.members:
        if isinstance(one, (k.Function, k.Class, k.Partial, k.Instance)):
            yield one
