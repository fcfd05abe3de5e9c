"""Builtins that are treated as returning tensors, but sometimes return a number.

`sum(losses)` is 0 if there are no losses, and `max(t, 1.0)` is 1.0 itself if that is greater than `t`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dynalint.rulekit import k
from dynalint_rules._code.names import stores
from dynalint_rules._code.scope import Scope


def tensor_again_conditions(scope: Scope, *nodes: ast.expr) -> list[str]:
    """Return the conditions under which expressions are guaranteed to be tensors."""
    return list(dict.fromkeys(text for node in nodes for text in _conditions(scope, node, frozenset())))


def _conditions(scope: Scope, node: ast.expr, seen: frozenset[str]) -> Iterator[str]:
    if isinstance(node, ast.Call):
        yield from _of_call(scope, node)
    elif isinstance(node, ast.Name) and node.id not in seen:
        known, key = scope.function.known, (_conditions, node.id, seen)
        if key not in known:
            stored = [scope.parents.get(one) for one in stores(scope, node.id)]
            values = [one.value for one in stored if isinstance(one, ast.Assign)]
            texts = (text for one in values for text in _conditions(scope, one, seen | {node.id}))
            known[key] = list(dict.fromkeys(texts))
        yield from known[key]
    elif isinstance(node, ast.IfExp):
        yield from _conditions(scope, node.body, seen)
        yield from _conditions(scope, node.orelse, seen)
    elif isinstance(node, ast.UnaryOp):
        yield from _conditions(scope, node.operand, seen)
    elif isinstance(node, ast.BinOp | ast.Compare):
        operands = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.left, *node.comparators]
        found = [(scope.tensor(operand), list(_conditions(scope, operand, seen))) for operand in operands]
        # If one operand is always a tensor, the whole expression is.
        if not any(tensor is not None and not texts for tensor, texts in found):
            yield from (text for _, texts in found for text in texts)


def _of_call(scope: Scope, node: ast.Call) -> Iterator[str]:
    callee = scope.kind(node.func)
    if not isinstance(callee, k.External) or scope.tensor(node) is None or not node.args:
        return
    if callee.name == "builtins.sum" and len(node.args) == 1 and not _is_filled(scope, node.args[0]):
        yield f"{scope.quote(node.args[0])} is not empty"
    if callee.name in ("builtins.max", "builtins.min"):
        given = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "default")]
        if any(k.is_number(scope.kind(one)) or _has_number(scope.kind(one)) for one in given):
            yield f"{scope.quote(node)} is a tensor"


def _has_number(kind: k.Kind) -> bool:
    """Return whether a kind is a list or tuple that can contain a number."""
    element = kind.element if isinstance(kind, k.Sequence) else k.UNKNOWN
    return any(k.is_number(one) for one in element.members)


def _is_filled(scope: Scope, node: ast.expr) -> bool:
    """Return whether an iterable is known to be not empty."""
    if isinstance(node, ast.GeneratorExp | ast.ListComp):
        return all(not loop.ifs and _is_filled(scope, loop.iter) for loop in node.generators)
    kind = scope.kind(node)
    return isinstance(kind, k.Sequence) and bool(kind.items)
