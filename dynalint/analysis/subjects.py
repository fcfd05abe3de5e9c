"""Tests that only check whether a single variable or attribute of `self` is true or is None."""

from __future__ import annotations

import ast
from typing import Literal, NamedTuple

from dynalint.analysis.compact import ByType
from dynalint.analysis.index import FunctionInfo, walk_function

_HOLDING: dict[tuple[type[ast.cmpop], int], bool] = {
    (ast.Gt, 0): True,
    (ast.NotEq, 0): True,
    (ast.GtE, 1): True,
    (ast.Eq, 0): False,
    (ast.Lt, 1): False,
    (ast.LtE, 0): False,
}


_ASKING = ByType(
    {ast.AST: False, **dict.fromkeys((ast.If, ast.While, ast.IfExp, ast.Assert, ast.BoolOp, ast.UnaryOp), True)}
)


class Subject(NamedTuple):
    """A test of a variable, or of attribute `name` of the variable `self`. Its type is "bool" or "none".

    `positive` is false if the test is negated, as in `not self.merged` or `len(self.parts) == 0`.
    """

    asks: Literal["bool", "none"]
    name: str
    attribute: str | None
    positive: bool = True

    def negated(self) -> Subject:
        """Return the opposite test."""
        return self._replace(positive=not self.positive)

    def key(self, self_name: str | None) -> str:
        """Return the fact's key in an environment where the receiver has this name."""
        return f"{self.asks}({self.name})" if self.attribute is None else f"{self.asks}({self_name}.{self.attribute})"


def subject(node: ast.expr, self_name: str | None) -> Subject | None:
    """Return the subject of a test of whether one value is true, empty or None.

    Return None for other tests.
    """
    if isinstance(node, ast.Name):
        return Subject("bool", node.id, None)
    if isinstance(node, ast.Attribute):
        owner = node.value
        on_self = isinstance(owner, ast.Name) and owner.id == self_name and self_name is not None
        return Subject("bool", "", node.attr) if on_self else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = subject(node.operand, self_name)
        return None if inner is None else inner.negated()
    if isinstance(node, ast.Call):
        return subject(node.args[0], self_name) if _is_call_of(node, "bool", "len") else None
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.comparators[0], ast.Constant):
        return _of_comparison(node.left, node.ops[0], node.comparators[0].value, self_name)
    return None


def _of_comparison(left: ast.expr, op: ast.cmpop, value: object, self_name: str | None) -> Subject | None:
    if value is None and isinstance(op, (ast.Is, ast.IsNot)):
        inner = subject(left, self_name) if isinstance(left, (ast.Name, ast.Attribute)) else None
        return None if inner is None else inner._replace(asks="none", positive=isinstance(op, ast.Is))
    if type(value) is int and isinstance(left, ast.Call) and _is_call_of(left, "len"):
        holds = _HOLDING.get((type(op), value))
        inner = None if holds is None else subject(left, self_name)
        return inner if holds or inner is None else inner.negated()
    return None


def _is_call_of(node: ast.Call, *names: str) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id in names and len(node.args) == 1 and not node.keywords


def tested_subjects(function: FunctionInfo, self_name: str | None) -> tuple[Subject, ...]:
    """Return the subjects that a function tests, without negation or duplicates."""
    if tested_subjects not in function.known:
        function.known[tested_subjects] = _tested(function, self_name)
    found: tuple[Subject, ...] = function.known[tested_subjects]
    return found


def _asked_by(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.BoolOp):
        return node.values
    if isinstance(node, ast.UnaryOp):
        return [node.operand] if isinstance(node.op, ast.Not) else []
    assert isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert))
    return [node.test]


def _tested(function: FunctionInfo, self_name: str | None) -> tuple[Subject, ...]:
    found: dict[Subject, None] = {}
    for node in walk_function(function.node):
        if not _ASKING[type(node)]:
            continue
        for test in _asked_by(node):
            one = subject(test, self_name)
            if one is not None:
                found[one._replace(positive=True)] = None
    return tuple(found)


def tested_name(node: ast.expr) -> str | None:
    """Return the variable that a test like `isinstance(x, A)` or `x is None`, or its negation, is about."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node = node.operand
    about: ast.expr | None = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot) and is_none(node.comparators[0]):
        about = node.left
    return about.id if isinstance(about, ast.Name) else None


def is_none(node: ast.expr) -> bool:
    """Return whether an expression is the constant None."""
    return isinstance(node, ast.Constant) and node.value is None
