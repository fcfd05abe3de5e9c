"""Uses of a class attribute in the project, and the object that each use refers to."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TypeGuard

from dynalint.rulekit import ClassInfo, FunctionInfo, Project, Refusal, SourceFile, k, quote, walk

_BY_NAME = frozenset({"getattr", "setattr", "hasattr", "delattr", "attrgetter", "__getattr__", "__setattr__"})
_HOOKS = ("__setattr__", "__getattribute__", "__delattr__", "__slots__")


@dataclass(frozen=True)
class Use:
    """A use of `owner.name` in the code, as `node` in `function`, or at the file's top level if `function` is None."""

    file: SourceFile
    function: FunctionInfo | None
    node: ast.Attribute
    project: Project

    @property
    def place(self) -> str:
        """The file and line, as text for a sentence."""
        return f"{self.file.path.name}:{self.node.lineno}"

    @property
    def stored(self) -> bool:
        """Whether the use is an assignment or deletion."""
        return not isinstance(self.node.ctx, ast.Load)

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return the parent of a node in the function."""
        return None if self.function is None else self.project.parents(self.function).get(node)

    def statement(self) -> ast.stmt | None:
        """Return the statement that contains the use."""
        node: ast.AST | None = self.node
        while node is not None and not isinstance(node, ast.stmt):
            node = self.parent(node)
        return node

    def kind(self, node: ast.expr) -> k.Kind:
        """Return the kind of an expression in the function."""
        return k.UNKNOWN if self.function is None else self.project.kinds(self.function).get(node, k.UNKNOWN)

    def quote(self, node: ast.expr | ast.stmt) -> str:
        """Return code as text for a sentence."""
        return quote(self.file, node)


@dataclass(frozen=True)
class Attribute:
    """Attribute `name` of the instances of `cls` and all its subclasses."""

    cls: ClassInfo
    name: str
    project: Project

    @property
    def family(self) -> list[ClassInfo]:
        """The classes whose `self` can have the attribute: `cls` and its subclasses, with all their base classes."""
        heirs = [one for one in self.project.all_classes if self.cls in self.project.mro(one)]
        return list(dict.fromkeys(base for one in (self.cls, *heirs) for base in self.project.mro(one)))

    def uses(self) -> list[Use]:
        """Return the uses on `self` in methods of the family.

        Raises:
            Refusal: If the attribute is or may be used elsewhere, by name, or through special methods.
        """
        family = self.family
        self._refuse_hooks(family)
        own: list[Use] = []
        for file, function, node in self.project.attribute_uses(self.name):
            use = Use(file, function, node, self.project)
            if self._is_called(use):
                continue
            owner = _self_class(function, node.value)
            if owner is not None:
                if owner in family:
                    own.append(use)
            elif self._may_be_ours(use, node, family):
                verb = "sets" if use.stored else "reads"
                raise Refusal(
                    f"{use.place} {verb} {use.quote(node)} from outside the class and would get a tensor; "
                    "change that line and the class together"
                )
        return own

    def _is_called(self, use: Use) -> bool:
        """Return whether a use is a call such as `x.step()`.

        A number cannot be called, so it is a different attribute.
        """
        parent = use.parent(use.node)
        if parent is None and use.function is None:
            calls = (node for node in walk(_tree(use.file)) if isinstance(node, ast.Call))
            return any(call.func is use.node for call in calls)
        return isinstance(parent, ast.Call) and parent.func is use.node

    def _may_be_ours(self, use: Use, node: ast.Attribute, family: list[ClassInfo]) -> bool:
        kind = use.kind(node.value) if use.function is not None else self._kind_at_top(use, node)
        return any(self._holds(member, family) for member in kind.members)

    def _kind_at_top(self, use: Use, node: ast.Attribute) -> k.Kind:
        module = next((one for one in self.project.modules.values() if one.file is use.file), None)
        if module is None or self.project.interpreter is None:
            return k.UNKNOWN
        return self.project.interpreter.scopes.in_scope(node.value, module, None)

    def _holds(self, kind: k.Kind, family: list[ClassInfo]) -> bool:
        """Return whether a value of this kind can be an instance, or a class, of the family."""
        if isinstance(kind, k.Instance | k.Class):
            return kind.cls in family
        return isinstance(kind, k.Unknown | k.Nothing)

    def _refuse_hooks(self, family: list[ClassInfo]) -> None:
        for module, place in self.project.nodes_with(self.name):
            if _by_name(place, self.name):
                raise Refusal(
                    f"{module.file.path.name}:{place.lineno} refers to the attribute by its name as a string; "
                    "change that line and the class together"
                )
        for cls in family:
            for hook in _HOOKS:
                if hook in cls.methods or hook in cls.body:
                    raise Refusal(f"`{cls.name}` defines `{hook}`, which may treat a buffer differently")
            if self.name in cls.body or self.name in cls.methods:
                raise Refusal(f"the class body of `{cls.name}` also defines `{self.name}`; remove it there first")
            for node in walk(cls.node):
                if _stores_by_name(node):
                    raise Refusal(f"`{cls.name}` sets attributes with computed names, so dynalint cannot see all uses")


def _tree(file: SourceFile) -> ast.Module:
    assert file.tree is not None
    return file.tree


def _self_class(function: FunctionInfo | None, owner: ast.expr) -> ClassInfo | None:
    """Return the class whose `self` an expression refers to, in a method or a function nested in one."""
    if not isinstance(owner, ast.Name):
        return None
    while function is not None:
        if function.owner is not None:
            return function.owner if self_name(function) == owner.id else None
        if owner.id in function.locals:
            return None
        function = function.parent
    return None


def self_name(function: FunctionInfo) -> str | None:
    """Return the name of a method's first parameter."""
    return function.positional[0].arg if function.positional else None


def _by_name(node: ast.AST, name: str) -> TypeGuard[ast.Call | ast.Subscript]:
    """Return whether a node accesses an attribute by name, as in `getattr(m, "name")` or `vars(m)["name"]`."""
    if isinstance(node, ast.Call):
        function = node.func
        called = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
        return called in _BY_NAME and any(isinstance(arg, ast.Constant) and arg.value == name for arg in node.args)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == name:
        owner = ast.unparse(node.value)
        return "__dict__" in owner or "vars(" in owner
    return False


def _stores_by_name(node: ast.AST) -> bool:
    """Return whether a node is `setattr(self, computed, value)` or changes `self.__dict__`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
        return len(node.args) > 1 and not isinstance(node.args[1], ast.Constant)
    return isinstance(node, ast.Attribute) and node.attr == "__dict__" and isinstance(node.value, ast.Name)
