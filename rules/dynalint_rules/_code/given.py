"""Arguments of compiled functions that nothing says anything about. A run shows whether they are tensors."""

from __future__ import annotations

import ast

from dynalint.rulekit import k
from dynalint_rules._code.names import only_value
from dynalint_rules._code.scope import Scope

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)


def given_tensor(scope: Scope, node: ast.expr, seen: frozenset[str] = frozenset()) -> str | None:
    """Return the argument that makes a value a tensor if it is one itself, or None.

    The value is the argument, or arithmetic with it. The argument is the first of a root, required, and without an
    annotation. Names that were `seen` are not followed again.
    """
    kind = scope.kind(node)
    if not isinstance(kind, k.Unknown) or kind.compared:
        return None
    if isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
        return given_tensor(scope, node.left, seen) or given_tensor(scope, node.right, seen)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return given_tensor(scope, node.operand, seen)
    if not isinstance(node, ast.Name) or node.id in seen:
        return None
    if kind.parameter == node.id:
        return node.id if is_first_argument(scope, node.id) else None
    value = only_value(scope, node.id, node)
    return None if value is None else given_tensor(scope, value, seen | {node.id})


def is_first_argument(scope: Scope, name: str) -> bool:
    """Return whether a name is the first parameter of a root, without a default or an annotation.

    Later ones are often numbers, such as a scale.
    """
    function = scope.function
    first = function.positional[int(function.owner is not None) :][:1]
    required = [one for one in first if one.arg not in function.defaults]
    return function.caller is None and any(one.arg == name and one.annotation is None for one in required)
