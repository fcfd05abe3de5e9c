"""Find out whether the value of a name may still be read after a statement."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Literal

from dynalint.rulekit import remembered, walk
from dynalint_rules._code.names import around, is_shared
from dynalint_rules._code.scope import Scope

_Use = Literal["read", "gone"] | None


def is_dead_after(scope: Scope, name: str, statement: ast.stmt) -> bool:
    """Return whether `name` is rebound on every path from the end of `statement` before it is read.

    If a jump, an exception or the next iteration of a loop may lead to other code, return False.
    """
    if _is_used_elsewhere(scope, name) or _jumps(statement):
        return False
    current: ast.AST = statement
    found: _Use = None
    while current is not scope.function.node:
        parent = scope.parents[current]
        if isinstance(parent, ast.Try | ast.Match | ast.AsyncFunctionDef):
            return False
        found = found or _first_use(around(scope.parents, current)[1], name)
        if found is None and isinstance(parent, ast.For | ast.AsyncFor | ast.While):
            return False
        current = parent
    return found != "read"


def _jumps(statement: ast.stmt) -> bool:
    jumps = (ast.Break, ast.Continue)
    return remembered((_jumps, statement), lambda: any(isinstance(one, jumps) for one in walk(statement)))


def _is_used_elsewhere(scope: Scope, name: str) -> bool:
    """Return whether a name also belongs to another scope, or is read by a nested function."""
    known = scope.function.known
    if _is_used_elsewhere not in known:
        own = scope.function.node
        scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
        known[_is_used_elsewhere] = [node for node in walk(own) if isinstance(node, scopes) and node is not own]
    return is_shared(scope, name) or any(_mentions(node, name) for node in known[_is_used_elsewhere])


def _first_use(statements: Sequence[ast.stmt], name: str) -> _Use:
    """Return "read" if a path may read a name first, "gone" if its value is lost on every path, or None."""
    for statement in statements:
        found = _use(statement, name)
        if found is not None:
            return found
    return None


def _use(statement: ast.stmt, name: str) -> _Use:
    if isinstance(statement, ast.Break | ast.Continue):
        return "read"  # assume that the name is read
    if isinstance(statement, ast.If):
        ways = [_first_use(block, name) for block in (statement.body, statement.orelse)]
        if _reads(statement.test, name) or "read" in ways:
            return "read"
        return "gone" if ways == ["gone", "gone"] else None
    if isinstance(statement, ast.Assign):
        if _reads(statement, name):
            return "read"
        return "gone" if any(_binds(target, name) for target in statement.targets) else None
    if isinstance(statement, ast.Return | ast.Raise):
        return "read" if _mentions(statement, name) else "gone"
    if isinstance(statement, ast.For) and not statement.orelse and not _leaves(statement):
        found = _first_use(statement.body, name)
        if _mentions(statement.target, name) or _reads(statement.iter, name) or found == "read":
            return "read"
        return found if _has_rounds(statement.iter) else None
    leaves = _leaves(statement)
    return "read" if leaves or _mentions(statement, name) else None


def _leaves(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Break | ast.Continue | ast.Return) for node in walk(statement))


def _has_rounds(rounds: ast.expr) -> bool:
    """Return whether the code shows that a loop runs at least once."""
    given = rounds.args if isinstance(rounds, ast.Call) and ast.unparse(rounds.func) == "range" else []
    number = given[0].value if len(given) == 1 and isinstance(given[0], ast.Constant) else None
    return isinstance(number, int) and number > 0


def _binds(target: ast.expr, name: str) -> bool:
    if isinstance(target, ast.Tuple | ast.List):
        return any(_binds(element, name) for element in target.elts)
    return isinstance(target, ast.Name) and target.id == name


def _reads(node: ast.AST, name: str) -> bool:
    names = (one for one in walk(node) if isinstance(one, ast.Name) and one.id == name)
    return any(not isinstance(one.ctx, ast.Store) for one in names)


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in walk(node))
