"""Expressions that may raise if they are evaluated on every call, without the tests that protect them.

If nothing is selected, `mask.any() and x[mask].max() > 1` is fine, but `mask.any() & (x[mask].max() > 1)` raises.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dynalint.rulekit import k, walk
from dynalint_rules._code.names import may_be_unbound
from dynalint_rules._code.scope import Scope, as_tensor

# Methods that are defined for tensors of every dtype and size, including empty ones.
_TOTAL = frozenset("all any count_nonzero detach double float isfinite isinf isnan logical_not long bool sum".split())
# Attributes that every tensor has.
_SAID = frozenset("shape dtype device ndim requires_grad is_leaf".split())
_PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.expr_context, ast.UnaryOp, ast.Not)
_EQUALITY = (ast.Compare, ast.Eq, ast.NotEq, ast.Is, ast.IsNot)
# If a dtype has no order, the first comparison with the same tensor already raises.
_ORDERS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def never_raises(scope: Scope, node: ast.expr) -> bool:
    """Return whether an expression never raises, regardless of its tensors' shapes and contents."""
    repeated = isinstance(scope.parents.get(node), ast.GeneratorExp | ast.ListComp)
    return (repeated or not may_be_unbound(scope, node)) and _is_total(scope, node)


def raising_conditions(scope: Scope, nodes: Sequence[ast.expr], scalar: Sequence[bool] = ()) -> list[str]:
    """Return the conditions for always evaluating `nodes`, which Python only evaluates if earlier operands allow it.

    `scalar` says for each node that is converted to bool whether it definitely has no dimensions, because a tensor with
    more than one element cannot be converted.
    """
    lacking = [not known for known in scalar] or [False] * len(nodes)
    return [
        f"{scope.quote(node)} does not raise an exception in cases where it was not evaluated before"
        for node, unsure in zip(nodes, lacking, strict=True)
        if unsure or not never_raises(scope, node)
    ]


def shows_without_raising(scope: Scope, node: ast.expr) -> bool:
    """Return whether evaluating an expression and converting it to a string never raises."""
    if isinstance(node, ast.Tuple | ast.List):
        return all(shows_without_raising(scope, one) for one in node.elts)
    if isinstance(node, ast.JoinedStr):
        shown = [one for one in node.values if isinstance(one, ast.FormattedValue)]
        return all(one.format_spec is None and shows_without_raising(scope, one.value) for one in shown)
    if isinstance(node, ast.Attribute) and node.attr in _SAID and scope.tensor(node.value) is not None:
        return never_raises(scope, node.value)
    if isinstance(node, ast.Name) and not may_be_unbound(scope, node):
        return not any(isinstance(one, k.Instance | k.Nothing) for one in scope.kind(node).members)
    return never_raises(scope, node)


def _is_total(scope: Scope, node: ast.expr) -> bool:
    if isinstance(node, ast.Constant | ast.Name):
        return isinstance(node, ast.Constant) or _is_number_or_tensor(scope, node)
    if isinstance(node, ast.Attribute):
        return _is_of_self(scope, node) and _is_number_or_tensor(scope, node)
    if isinstance(node, ast.BoolOp):
        return all(_is_total(scope, value) and _has_truth(scope, value) for value in node.values)
    if isinstance(node, ast.UnaryOp):
        fits = isinstance(node.op, ast.Not) or _has_dtype(scope, node.operand, *_DTYPES.get(type(node.op), ()))
        return fits and _is_total(scope, node.operand)
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        return all(isinstance(one, _ORDERS) for one in node.ops) and _go_together(scope, operands)
    if isinstance(node, ast.BinOp):
        return _is_total_operator(scope, node) and _go_together(scope, [node.left, node.right])
    return isinstance(node, ast.Call) and _is_total_call(scope, node)


_DTYPES: dict[type[ast.AST], tuple[str, ...]] = {ast.Invert: ("bool", "int"), ast.USub: ("int", "float", "complex")}


def _is_number_or_tensor(scope: Scope, node: ast.expr) -> bool:
    kind = scope.kind(node)
    return k.is_number(kind) or as_tensor(kind) is not None


def _is_of_self(scope: Scope, node: ast.Attribute) -> bool:
    """Return whether this reads an attribute of `self` that is stored rather than computed by a method."""
    owner = scope.kind(node.value)
    return (
        isinstance(node.value, ast.Name)
        and isinstance(owner, k.Instance)
        and scope.project.find_method(owner.cls, node.attr) is None
    )


def _has_dtype(scope: Scope, node: ast.expr, *dtypes: str) -> bool:
    return k.is_number(scope.kind(node)) or scope.dtype(node) in dtypes


def _has_truth(scope: Scope, node: ast.expr) -> bool:
    """Return whether an expression can be converted to bool, unlike a tensor with more than one element."""
    return k.is_number(scope.kind(node)) or scope.rank(node) == 0


def _go_together(scope: Scope, nodes: list[ast.expr]) -> bool:
    """Return whether at most one of the expressions has dimensions. Two shapes might not broadcast."""
    sized = [node for node in nodes if not _has_truth(scope, node)]
    return len(sized) < 2 and all(_is_total(scope, node) for node in nodes)


def _is_total_operator(scope: Scope, node: ast.BinOp) -> bool:
    """Return whether an operator never raises for these operands. Python numbers can overflow or be divided by zero."""
    if scope.tensor(node.left) is None and scope.tensor(node.right) is None:
        return False
    if isinstance(node.op, ast.BitAnd | ast.BitOr):
        return all(_has_dtype(scope, side, "bool") for side in (node.left, node.right))
    if isinstance(node.op, ast.Sub):
        return all(_has_dtype(scope, side, "int", "float", "complex") for side in (node.left, node.right))
    return isinstance(node.op, ast.Add | ast.Mult | ast.Div)


def _is_total_call(scope: Scope, node: ast.Call) -> bool:
    callee = scope.kind(node.func)
    if isinstance(callee, k.Method) and as_tensor(callee.receiver) is not None and isinstance(node.func, ast.Attribute):
        name, given = callee.name, [node.func.value, *node.args]
    elif isinstance(callee, k.External) and callee.name.startswith("torch."):
        name, given = callee.name.removeprefix("torch."), node.args
    else:
        return False
    if not given and not node.keywords:
        return name.startswith("is_")  # such as `torch.is_grad_enabled`
    if len(given) != 1 or node.keywords or scope.tensor(given[0]) is None:
        return False
    fits = name in _TOTAL or (name in ("mean", "abs") and _has_dtype(scope, given[0], "float"))
    return fits and _is_total(scope, given[0])


def is_plain(value: ast.expr) -> bool:
    """Return whether evaluating a value has no side effects and never raises."""
    return all(isinstance(node, (*_PLAIN, *_EQUALITY)) for node in walk(value))
