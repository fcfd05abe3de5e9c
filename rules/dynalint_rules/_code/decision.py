"""Data-dependent decisions, and the `if`, `while`, `assert` or operator that makes them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dynalint.rulekit import Branch, Event, Project, fails, k, walk

# How many names are followed to their assigned values.
_DEEPEST = 2

DecisionForm = Literal["if", "while", "ifexp", "assert", "comprehension", "match", "value"]


@dataclass(frozen=True)
class Decision:
    """The decision that an operand belongs to.

    `test` is the whole expression that is tested, and `node` is the construct that tests it, or None if the test is a
    value. `asked` is true if `node` itself converts the operand to bool. In `assert a and b`, this is the case for `b`
    but not for `a`.
    """

    form: DecisionForm
    test: ast.expr
    node: ast.AST | None
    asked: bool


def decision_of(parents: Mapping[ast.AST, ast.AST], operand: ast.expr) -> Decision:
    """Return the decision that `operand` is part of, looking through `and`, `or`, `not` and conditional expressions."""
    current = operand
    asked = True
    while True:
        parent = parents.get(current)
        if isinstance(parent, ast.BoolOp):
            asked = asked and parent.values[-1] is current
        elif isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
            asked = False
        elif not (isinstance(parent, ast.IfExp) and parent.test is not current):
            return _decided(parent, current, asked)
        current = parent


def _decided(parent: ast.AST | None, test: ast.expr, asked: bool) -> Decision:
    if isinstance(parent, ast.If):
        return Decision("if", test, parent, asked)
    if isinstance(parent, ast.While):
        return Decision("while", test, parent, asked)
    if isinstance(parent, ast.IfExp):
        return Decision("ifexp", test, parent, asked)
    if isinstance(parent, ast.Assert) and parent.test is test:
        return Decision("assert", test, parent, asked)
    if isinstance(parent, ast.comprehension) and test in parent.ifs:
        return Decision("comprehension", test, parent, asked)
    if isinstance(parent, ast.match_case | ast.Match):
        return Decision("match", test, parent, asked)
    return Decision("value", test, parent, asked)


def is_guard(statement: ast.AST | None) -> bool:
    """Return whether a statement is an `if` with a branch that ends in an exception."""
    return isinstance(statement, ast.If) and any(
        fails(block[-1]) for block in (statement.body, statement.orelse) if block
    )


def asks_tensor(event: Branch, project: Project) -> bool:
    """Return whether an event converts a tensor to bool on at least one path.

    The value can also be a bool if the code shows on which path it is one. For example, `found = False` can be replaced
    by a tensor under a condition, or the test can be `self.training and t > 0`. Otherwise, a bool, a number or a list
    only shows that too little is known.
    """
    if k.only_tensor(event.kind) is not None:
        return True
    others = [member for member in event.kind.members if not isinstance(member, k.Tensor)]
    known = all(isinstance(other, k.Value) and other.type in ("none", "bool") for other in others)
    if not known or len(others) == len(event.kind.members) or not isinstance(event.node, ast.expr):
        return False
    return _gives_tensor(event.node, event.function.node, project.kinds(event.function), _DEEPEST)


def _gives_tensor(node: ast.expr, function: ast.AST, kinds: Mapping[ast.AST, k.Kind], depth: int) -> bool:
    """Return whether an expression is known to be a tensor on some path."""
    if k.only_tensor(kinds.get(node, k.UNKNOWN)) is not None:
        return True
    parts: list[ast.expr] = []
    if isinstance(node, ast.BoolOp):
        parts = node.values
    elif isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    elif isinstance(node, ast.Compare) and len(node.ops) > 1:
        parts = [node.left, *node.comparators]
    elif isinstance(node, ast.Name) and depth:
        assigned = (one for one in walk(function) if isinstance(one, ast.Assign))
        parts = [one.value for one in assigned if any(_is_name(target, node.id) for target in one.targets)]
    elif isinstance(node, ast.Call):
        return True
    return any(_gives_tensor(part, function, kinds, depth - isinstance(node, ast.Name)) for part in parts)


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def thing(kind: k.Kind) -> str:
    """Return what to call a tensor in a message."""
    tensor = k.only_tensor(kind)
    origin = tensor.origin if tensor is not None else None
    return {"buffer": "a buffer", "parameter": "a parameter"}.get(origin or "", "a tensor")


def tested_value(operand: ast.expr, decision: Decision) -> ast.expr:
    """Return the node to flag: the operand or, for a `match` subject, the first value that it is compared with."""
    if isinstance(decision.node, ast.Match):
        for case in decision.node.cases:
            for child in walk(case.pattern):
                if isinstance(child, ast.MatchValue):
                    return child.value
    return operand


def operand_of(event: Event) -> ast.expr | None:
    """Return an event's expression, or None if the event concerns a statement."""
    return event.node if isinstance(event.node, ast.expr) else None
