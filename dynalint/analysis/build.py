"""Build the index record of a module from its syntax tree."""

from __future__ import annotations

import ast

from dynalint.analysis.index import ClassInfo, FunctionInfo, Import, ModuleInfo
from dynalint.analysis.source import SourceFile


def build_module(name: str, file: SourceFile, package: bool) -> ModuleInfo:
    """Return the record of a parsed module with all its classes and functions, including nested ones."""
    module = ModuleInfo(name, file, package)
    _Builder(module).block(module.tree.body, "", None, None)
    return module


def bind_imports(module: ModuleInfo, node: ast.Import | ast.ImportFrom) -> list[tuple[str, Import]]:
    """Return the names that an import statement binds, each with its import. A star import binds no names here."""
    if isinstance(node, ast.Import):
        return [
            (alias.asname, Import(alias.name, None))
            if alias.asname
            else (alias.name.partition(".")[0], Import(alias.name.partition(".")[0], None))
            for alias in node.names
        ]
    source = absolute_module(module, node)
    return [(alias.asname or alias.name, Import(source, alias.name)) for alias in node.names if alias.name != "*"]


def absolute_module(module: ModuleInfo, node: ast.ImportFrom) -> str:
    """Return the absolute dotted name of the module in a `from ... import` statement."""
    return absolute_name(module.name, module.package, node.level, node.module or "")


def absolute_name(importer: str, package: bool, level: int, source: str) -> str:
    """Return the absolute dotted name of `source` as imported with `level` leading dots.

    `importer` is the name of the importing module, and `package` says whether it is a package.
    """
    if not level:
        return source
    parts = importer.split(".")
    if not package:
        parts = parts[:-1]
    parts = parts[: len(parts) - (level - 1)] if level > 1 else parts
    return ".".join([*parts, *([source] if source else [])])


class _Builder:
    """Walk a module's statements and record what they bind."""

    def __init__(self, module: ModuleInfo) -> None:
        self.module = module
        self.checking = False

    def block(
        self,
        body: list[ast.stmt],
        prefix: str,
        owner: ClassInfo | None,
        parent: FunctionInfo | None,
        weak: bool = False,
    ) -> None:
        """Record a block.

        Bindings in `except` and `else` blocks are `weak`: they do not replace existing ones.
        """
        for statement in body:
            # Inside a function, only statements that can contain another definition matter.
            if parent is None or hasattr(statement, "body"):
                self.statement(statement, prefix, owner, parent, weak)

    def statement(
        self, node: ast.stmt, prefix: str, owner: ClassInfo | None, parent: FunctionInfo | None, weak: bool
    ) -> None:
        """Record a statement and the blocks inside it."""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.function(node, prefix, owner, parent, weak)
        elif isinstance(node, ast.ClassDef):
            self.class_(node, prefix, owner, parent, weak)
        elif isinstance(node, (ast.If, ast.For, ast.While, ast.AsyncFor)):
            outside, self.checking = self.checking, self.checking or _is_for_checkers(node)
            self.block(node.body, prefix, owner, parent, weak)
            self.checking = outside
            self.block(node.orelse, prefix, owner, parent, True)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            self.block(node.body, prefix, owner, parent, weak)
        elif isinstance(node, ast.Try):
            self.block(node.body, prefix, owner, parent, weak)
            for handler in node.handlers:
                self.block(handler.body, prefix, owner, parent, True)
            self.block(node.orelse, prefix, owner, parent, weak)
            self.block(node.finalbody, prefix, owner, parent, weak)
        elif parent is None:
            self.binding(node, owner, weak)

    def function(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        prefix: str,
        owner: ClassInfo | None,
        parent: FunctionInfo | None,
        weak: bool,
    ) -> None:
        """Record a function or method and its nested functions."""
        info = FunctionInfo(node.name, f"{prefix}{node.name}", node, self.module, owner, parent)
        self.module.functions.append(info)
        if owner is not None:
            if not (weak and node.name in owner.methods) and not _is_accessor(node):
                owner.methods[node.name] = info
        elif parent is None:
            self.bind(node.name, info, weak)
        self.block(node.body, f"{info.qualname}.<locals>.", None, info)

    def class_(
        self, node: ast.ClassDef, prefix: str, owner: ClassInfo | None, parent: FunctionInfo | None, weak: bool
    ) -> None:
        """Record a class and the definitions in its body."""
        info = ClassInfo(node.name, f"{prefix}{node.name}", node, self.module, parent)
        self.module.classes.append(info)
        if owner is not None:
            owner.classes[node.name] = info
        elif parent is None:
            self.bind(node.name, info, weak)
        self.block(node.body, f"{info.qualname}.", info, None)

    def binding(self, node: ast.stmt, owner: ClassInfo | None, weak: bool) -> None:
        """Record an import or assignment at the top level or in a class body."""
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if owner is None:
                self.imports(node, weak)
            return
        targets: list[ast.expr]
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        elif isinstance(node, ast.AugAssign):
            targets, value = [node.target], ast.Constant(...)
        elif type(node).__name__ == "TypeAlias":  # `type Name = ...`, from Python 3.12
            targets, value = [node.name], node.value  # type: ignore[attr-defined]
        else:
            return
        for target in targets:
            if isinstance(target, ast.Name):
                if owner is not None:
                    owner.body[target.id] = value
                    if isinstance(value, ast.Name) and value.id in owner.methods:
                        owner.methods[target.id] = owner.methods[value.id]
                else:
                    self.assign(target.id, value, weak)
            elif isinstance(target, (ast.Tuple, ast.List)) and owner is None:
                self.unpack(target.elts, value, weak)

    def unpack(self, targets: list[ast.expr], value: ast.expr, weak: bool) -> None:
        """Record the names that a tuple of targets binds.

        If a value cannot be read from the source, it is recorded as `...`.
        """
        each = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
        values = each if len(each) == len(targets) else [ast.Constant(...)] * len(targets)
        for target, one in zip(targets, values, strict=True):
            if isinstance(target, ast.Name):
                self.assign(target.id, one, weak)

    def imports(self, node: ast.Import | ast.ImportFrom, weak: bool) -> None:
        """Record the names that an import statement binds."""
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            self.module.stars.append(absolute_module(self.module, node))
        for name, target in bind_imports(self.module, node):
            self.bind(name, target, weak)

    def bind(self, name: str, value: Import | ClassInfo | FunctionInfo, weak: bool) -> None:
        """Bind a name in the module."""
        if not self.checking:
            self.module.for_checkers.discard(name)
        elif name not in self.module.bindings:
            self.module.for_checkers.add(name)
        known = self.module.bindings.get(name)
        if weak and known is not None:
            self.module.fallbacks.setdefault(name, value)
            return
        if isinstance(value, Import) and isinstance(known, (list, ClassInfo, FunctionInfo)):
            self.module.fallbacks.setdefault(name, known[-1] if isinstance(known, list) else known)
        self.module.bindings[name] = value

    def assign(self, name: str, value: ast.expr, weak: bool) -> None:
        """Add an assigned expression to a module-level name, or make it the fallback of an import."""
        known = self.module.bindings.setdefault(name, [])
        if isinstance(known, list):
            known.append(value)
        elif weak:
            self.module.fallbacks.setdefault(name, value)


def _is_for_checkers(node: ast.stmt) -> bool:
    """Return whether the body of a statement is only for type checkers."""
    test = node.test if isinstance(node, ast.If) else None
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _is_accessor(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether this is a property setter, a property deleter or an overload."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "deleter", "overload"):
            return True
        if isinstance(decorator, ast.Name) and decorator.id == "overload":
            return True
    return False
