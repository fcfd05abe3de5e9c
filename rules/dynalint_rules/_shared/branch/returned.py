"""Where a branch that returns stands, what may run after it, and names for what it returns."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dynalint.rulekit import Refusal, walk, walk_function
from dynalint_rules._code.memory import makes_tensor
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.sides import refuse_changed_alias
from dynalint_rules._shared.branch.truth import is_tensor_test
from dynalint_rules._shared.text import atom


def stands_in_branches(scope: Scope, statement: ast.stmt) -> bool:
    """Whether nothing but tests of Python values stand around a statement: a block that returns leads nowhere else."""
    node = scope.parents.get(statement)
    while isinstance(node, ast.If) and not is_tensor_test(scope, node.test):
        node = scope.parents.get(node)
    return node is scope.function.node


def always_returns(statements: Sequence[ast.stmt]) -> bool:
    """Whether every way through statements ends in a `return`."""
    last = statements[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and always_returns(last.body) and always_returns(last.orelse)
    return isinstance(last, ast.Return)


def returns_of(node: ast.AST) -> list[ast.Return]:
    """Return the `return` statements of a statement, those of functions in it left out."""
    return [one for one in walk_function(node) if isinstance(one, ast.Return)]


def lasting(scope: Scope, part: ast.expr, text: str, head: ast.stmt) -> str:
    """Return the text of a part of an early result, as a copy where what follows changes in place what it reads.

    Raises:
        Refusal: what it reads is changed, and it is not known to be a tensor.
    """
    if makes_tensor(scope, part):
        return text
    names = {node.id for node in walk(part) if isinstance(node, ast.Name)} & scope.function.locals
    try:
        for name in sorted(names):
            refuse_changed_alias(scope, name, head)
    except Refusal:
        if scope.tensor(part) is None:
            raise
        return f"{atom(part, text)}.clone()"
    return text
