"""Values that a block computes only for itself, so that they can also be computed when the block does not run."""

from __future__ import annotations

import ast

from dynalint_rules._code.names import is_shared, names, parameters, within
from dynalint_rules._code.scope import Scope


def computed_inside(scope: Scope, statement: ast.stmt, block: ast.stmt) -> list[ast.expr] | None:
    """Return the expressions that a statement evaluates if only `block` uses the names that it assigns, or None.

    If the block is in a loop, it must not read a value from an earlier iteration.
    """
    if isinstance(statement, ast.If):
        found = [computed_inside(scope, one, block) for one in (*statement.body, *statement.orelse)]
        inner = [value for values in found for value in values or ()]
        return None if None in found else [statement.test, *inner]
    if not isinstance(statement, ast.Assign):
        return None
    targets = [one for target in statement.targets for one in _parts(target)]
    again = _is_in_loop(scope, block)
    for one in targets:
        if not isinstance(one, ast.Name) or not _is_used_in(scope, one.id, block):
            return None
        if again and (scope.parents[statement] is not block or not _is_set_first(scope, one.id, statement)):
            return None
    return [statement.value]


def _parts(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple | ast.List) else [target]


def _is_used_in(scope: Scope, name: str, block: ast.stmt) -> bool:
    elsewhere = is_shared(scope, name) or name in parameters(scope)
    return not elsewhere and all(within(one, block, scope) for one in names(scope, name))


def _is_set_first(scope: Scope, name: str, statement: ast.stmt) -> bool:
    """Return whether a statement sets a name before any other code in the function uses it."""
    mentioned = [one for one in names(scope, name) if not within(one, statement, scope)]
    own = [one for one in names(scope, name) if within(one, statement, scope)]
    after = all((one.lineno, one.col_offset) > (statement.lineno, statement.col_offset) for one in mentioned)
    return after and all(isinstance(one.ctx, ast.Store) for one in own)


def _is_in_loop(scope: Scope, node: ast.AST) -> bool:
    while node is not scope.function.node:
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            return True
        node = scope.parents[node]
    return False
