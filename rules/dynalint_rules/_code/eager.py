"""Code that only runs in eager mode, under `if not torch.compiler.is_compiling():`."""

from __future__ import annotations

import ast

from dynalint_rules._code.scope import Scope


def is_eager(test: ast.expr) -> bool:
    """Return whether a test is `not torch.compiler.is_compiling()`."""
    asked = test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else None
    return isinstance(asked, ast.Call) and ast.unparse(asked.func).endswith("compiler.is_compiling")


def all_of(test: ast.expr) -> list[ast.expr]:
    """Return the operands that must all be true for a test to be true."""
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def is_in_eager_code(scope: Scope, node: ast.AST) -> bool:
    """Return whether a node is under `if not torch.compiler.is_compiling():`, or after it in the same test."""
    inner: ast.AST | None = node
    while inner is not None:
        outer = scope.parents.get(inner)
        if isinstance(outer, ast.If) and inner in outer.body and any(map(is_eager, all_of(outer.test))):
            return True
        inner = outer
    return is_in_eager_test(scope, node)


def is_in_eager_test(scope: Scope, node: ast.AST) -> bool:
    """Return whether a node is in an operand of `and` after `not torch.compiler.is_compiling()`."""
    inner: ast.AST | None = node
    while isinstance(inner, ast.expr):
        outer = scope.parents.get(inner)
        operands = all_of(outer) if isinstance(outer, ast.BoolOp) else []
        if any(map(is_eager, operands[: operands.index(inner)] if inner in operands else ())):
            return True
        inner = outer
    return False
