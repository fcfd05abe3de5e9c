"""What runs between two places and leaves some names, and all tensors, as they were."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.steps import walk
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.names import kind_of_name
from dynalint_rules._shared.scope import Scope

# Others, such as `with` and `try`, may do more than what stands in them.
_PLAIN = (
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Expr,
    ast.Pass,
    ast.If,
    ast.For,
    ast.Return,
    ast.Break,
    ast.Assert,
)


def leaves_alone(scope: Scope, nodes: Iterable[ast.AST], names: Collection[str]) -> bool:
    """Whether some statements and expressions give none of the names another value, and change nothing in place."""
    return not any(_changes(scope, one, names) for node in nodes for one in walk(node))


def _changes(scope: Scope, node: ast.AST, names: Collection[str]) -> bool:
    if isinstance(node, ast.stmt) and not isinstance(node, _PLAIN):
        return True
    if isinstance(node, ast.For) and isinstance(scope.kind(node.iter), k.Unknown | k.Instance | k.Object):
        return True  # what is not known to be a range, a list or a tensor may run code for each round
    if isinstance(node, ast.AugAssign):
        target = node.target
        if not (isinstance(target, ast.Name) and k.is_number(kind_of_name(scope, target.id, node))):
            return True
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return not isinstance(node, ast.Name) or node.id in names
    return isinstance(node, ast.Call | ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom) and not is_pure(
        scope, node
    )
