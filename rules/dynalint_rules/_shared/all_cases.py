"""A function that ends in `if`s which compare the same two values in all three ways, with a `return` for each."""

from __future__ import annotations

import ast

from dynalint_rules._shared.blocks import Chain, block_of, is_elif
from dynalint_rules._shared.scope import Scope

_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq,
}  # fmt: skip
# Which of less, equal and greater each holds for.
_HOLDS: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.Gt: ">", ast.LtE: "<=", ast.GtE: ">=", ast.Eq: "="}


def all_cases_of(scope: Scope, statement: ast.If) -> tuple[Chain, str] | None:
    """Return the chain that such `if`s make up, the last of which needs no test, and what it is different for.

    None where `statement` is none of them.
    """
    body = getattr(scope.function.node, "body", [])
    body = body if isinstance(body, list) else []
    start = len(body)
    while start and _flat(scope, body[start - 1]):
        start -= 1
    own = body[start:]
    branches = [one for top in own for one in _flat(scope, top)]
    if statement not in branches:
        return None
    first = _compared(branches[0].test)
    held = ""
    for branch in branches:
        case = _compared(branch.test)
        if first is None or case is None or case[:2] != first[:2] or not isinstance(branch.body[-1], ast.Return):
            return None
        held += case[2]
    if set(held) != set("<=>"):
        return None
    assert isinstance(branches[0].test, ast.Compare)
    compared = [branches[0].test.left, branches[0].test.comparators[0]]
    shown = " or ".join(scope.quote(one) for one in compared if not isinstance(one, ast.Constant))
    chain = Chain(
        branches[0],
        tuple(branch.test for branch in branches[:-1]),
        tuple(block_of(scope, branch.body) for branch in branches),
        own[-1],
        nested=False,
    )
    return chain, f"where {shown} is NaN, a tensor is returned instead of None"


def _flat(scope: Scope, statement: ast.stmt) -> list[ast.If]:
    """Return an `if` and its `elif`s, nothing where it is another statement or has an `else`."""
    if not isinstance(statement, ast.If):
        return []
    if not statement.orelse:
        return [statement]
    inner = statement.orelse[0]
    rest = _flat(scope, inner) if len(statement.orelse) == 1 and is_elif(scope, inner) else []
    return [statement, *rest] if rest else []


def _compared(test: ast.expr) -> tuple[str, str, str] | None:
    """Return the two sides of a comparison, in an order of their own, and in which cases it holds."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or type(test.ops[0]) not in _HOLDS:
        return None
    left, right = ast.dump(test.left), ast.dump(test.comparators[0])
    operator = type(test.ops[0])
    if left > right:
        left, right, operator = right, left, _MIRRORED[operator]
    return left, right, _HOLDS[operator]
