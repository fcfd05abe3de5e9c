"""Values that a block computes for itself only, so that it may as well compute them when it is not needed."""

from __future__ import annotations

import ast

from dynalint_rules._code.names import is_shared, names, parameters, within
from dynalint_rules._code.scope import Scope


def computed_inside(scope: Scope, statement: ast.stmt, block: ast.stmt) -> list[ast.expr] | None:
    """Return the expressions that a statement evaluates if only `block` uses the names that it assigns, or None.

    A block in a loop may read a value from an earlier iteration, so the result is None there.
    """
    if isinstance(statement, ast.If):
        found = [computed_inside(scope, one, block) for one in (*statement.body, *statement.orelse)]
        inner = [value for values in found for value in values or ()]
        return None if None in found else [statement.test, *inner]
    if not isinstance(statement, ast.Assign) or _is_in_loop(scope, block):
        return None
    targets = [one for target in statement.targets for one in _parts(target)]
    own = all(isinstance(one, ast.Name) and _is_used_in(scope, one.id, block) for one in targets)
    return [statement.value] if own else None


def _parts(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple | ast.List) else [target]


def _is_used_in(scope: Scope, name: str, block: ast.stmt) -> bool:
    elsewhere = is_shared(scope, name) or name in parameters(scope)
    return not elsewhere and all(within(one, block, scope) for one in names(scope, name))


def _is_in_loop(scope: Scope, node: ast.AST) -> bool:
    while node is not scope.function.node:
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            return True
        node = scope.parents[node]
    return False
