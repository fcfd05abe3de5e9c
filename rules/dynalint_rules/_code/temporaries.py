"""Values that a block computes only for itself, so that they can also be computed when the block does not run."""

from __future__ import annotations

import ast

from dynalint_rules._code.names import is_shared, names, parameters, within
from dynalint_rules._code.scope import Scope


def computed_inside(scope: Scope, statement: ast.stmt, block: ast.stmt) -> list[ast.expr] | None:
    """Return the expressions that a statement evaluates if only `block` uses the names that it assigns, or None.

    If the block is in a loop, the result is None, because it may read a value from an earlier iteration.
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
