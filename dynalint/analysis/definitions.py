"""The records of functions and classes that are defined inside functions, and of lambdas."""

from __future__ import annotations

import ast

from dynalint.analysis.index import ClassInfo, FunctionInfo, FunctionNode, ModuleInfo


class Definitions:
    """Finds the record of a definition by its node."""

    def __init__(self) -> None:
        self._functions: dict[ast.AST, FunctionInfo] = {}
        self._classes: dict[ast.AST, ClassInfo] = {}
        self._indexed: set[ModuleInfo] = set()

    def function_of(self, node: ast.AST, module: ModuleInfo, parent: FunctionInfo | None) -> FunctionInfo:
        """Return the record of a function definition or lambda in a function's body."""
        self._index(module)
        known = self._functions.get(node)
        if known is None:
            assert isinstance(node, (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef))
            name = getattr(node, "name", "<lambda>")
            prefix = f"{parent.qualname}.<locals>." if parent else ""
            known = self._functions[node] = FunctionInfo(name, f"{prefix}{name}", node, module, None, parent)
        return known

    def class_of(self, node: ast.ClassDef, module: ModuleInfo) -> ClassInfo | None:
        """Return the record of a class definition in a function's body."""
        self._index(module)
        return self._classes.get(node)

    def lambda_at(self, node: ast.Lambda) -> FunctionInfo | None:
        """Return the record of a lambda that has been interpreted, or None."""
        return self._functions.get(node)

    def renew_function(self, function: FunctionInfo, node: FunctionNode) -> None:
        """Give a function the node that it has after an edit."""
        if self._functions.pop(function.node, None) is not None:
            self._functions[node] = function
        function.node = node

    def renew_class(self, cls: ClassInfo, node: ast.ClassDef) -> None:
        """Give a class the node that it has after an edit."""
        if self._classes.pop(cls.node, None) is not None:
            self._classes[node] = cls
        cls.node = node

    def _index(self, module: ModuleInfo) -> None:
        if module not in self._indexed:
            self._indexed.add(module)
            self._functions.update((function.node, function) for function in module.functions)
            self._classes.update((cls.node, cls) for cls in module.classes)
