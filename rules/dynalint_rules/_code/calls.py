"""The callee of a call."""

from __future__ import annotations

import ast

from dynalint.rulekit import k
from dynalint_rules._code.scope import Scope


def callee(scope: Scope, node: ast.Call) -> str:
    """Return a callee's dotted name as in events, such as "torch.full" or "Tensor.item", or "" if it is unknown."""
    kind = scope.kind(node.func)
    if isinstance(kind, k.External):
        return str(scope.project.api.canonical(kind.name))
    if isinstance(kind, k.Method):
        owner = k.only_tensor(kind.receiver)
        if owner is not None:
            return f"Tensor.{kind.name}"
        if isinstance(kind.receiver, k.Object):
            return f"{kind.receiver.type}.{kind.name}"
    return ""


def calls_in_chain(last: ast.Call) -> list[ast.Call]:
    """Return the calls of a chain such as `x.add_(1).sqrt_()`, whose last call is given, in the order they run."""
    calls = [last]
    while isinstance(calls[0].func, ast.Attribute) and isinstance(calls[0].func.value, ast.Call):
        calls.insert(0, calls[0].func.value)
    return calls


def returns_logger(scope: Scope, node: ast.expr) -> bool:
    """Return whether a node is a call without arguments of a function that returns a logger, and may set it up."""
    is_bare = isinstance(node, ast.Call) and not node.args and not node.keywords
    return is_bare and scope.kind(node) == k.Object("logging.Logger")
