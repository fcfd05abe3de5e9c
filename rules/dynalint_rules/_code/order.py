"""The order in which code in a function runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from dynalint.rulekit import FunctionInfo, walk_function
from dynalint_rules._code.names import around, end_of


def always_before(first: ast.AST, second: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether `first` has always run before `second` does, assuming that loops run at least once.

    Both are expressions in the same function. Code in comprehensions and lambdas is treated as if it ran where it is
    written.
    """
    statement = _statement(second, parents)
    if _statement(first, parents) is statement:
        return _start(first) < _start(second)
    node: ast.AST | None = statement
    while node is not None:
        parent = parents.get(node)
        if parent is None:
            return False
        if isinstance(parent, ast.If | ast.While) and _inside(first, parent.test, parents):
            return True
        for earlier in around(parents, node)[0]:
            if _inside(first, earlier, parents) and always_runs(first, earlier, parents):
                return True
        node = parent
    return False


def may_return_before(function: FunctionInfo, statement: ast.AST) -> bool:
    """Return whether there is a `return` before a statement or expression."""
    return any(True for _ in returns_before(function, statement))


def returns_before(function: FunctionInfo, statement: ast.AST) -> Iterator[ast.Return]:
    """Yield the `return` statements before a statement or expression."""
    for node in walk_function(function.node):
        if isinstance(node, ast.Return) and end_of(node) <= _start(statement):
            yield node


def _statement(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> ast.AST:
    while not isinstance(node, ast.stmt) and node in parents:
        node = parents[node]
    return node


def _start(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _inside(node: ast.AST, outer: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    current: ast.AST | None = node
    while current is not None and current is not outer:
        current = parents.get(current)
    return current is outer


def always_runs(node: ast.AST, outer: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether `node`, which is inside `outer`, always runs when `outer` runs, whatever the control flow."""
    while node is not outer:
        parent = parents[node]
        if isinstance(parent, ast.If | ast.IfExp) and node is not parent.test:
            return False
        if isinstance(parent, ast.ExceptHandler | ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return False
        if isinstance(parent, ast.BoolOp) and node is not parent.values[0]:
            return False
        node = parent
    return True
