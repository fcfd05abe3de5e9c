"""Where a branch that returns stands, what may run after it, and names for what it returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dynalint.rulekit import Refusal, k, walk, walk_function
from dynalint_rules._code.effects import effects_of
from dynalint_rules._code.memory import makes_tensor
from dynalint_rules._code.names import within
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.blocks import is_elif, statements_after
from dynalint_rules._shared.branch.sides import refuse_changed_alias
from dynalint_rules._shared.branch.truth import is_tensor_test
from dynalint_rules._shared.text import atom

_UNROLLED = frozenset({"builtins.range", "builtins.enumerate", "builtins.zip", "builtins.reversed"})
_DEPTHS = "the function returns at several nesting levels; assign one result to a name and return that"


@dataclass(frozen=True)
class Place:
    """Where a branch that returns stands: `anchor` is the outermost statement around it, `after` what may run then."""

    anchor: ast.stmt
    after: list[ast.stmt]


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


def returning(scope: Scope, statement: ast.If) -> ast.expr | None:
    """Return the value of `if test: return value` in a loop, where nothing but a tensor decides; else None."""
    body, *others = statement.body
    if others or statement.orelse or is_elif(scope, statement) or not isinstance(body, ast.Return):
        return None
    if not is_tensor_test(scope, statement.test) or not any(
        isinstance(one, ast.For) for one in _around(scope, statement)
    ):
        return None
    return body.value


def place_of(scope: Scope, head: ast.If) -> Place:
    """Return where a branch stands, of which a way returns.

    Raises:
        Refusal: what stands around it may not run on, or leads to no result.
    """
    function = scope.function.node
    around = list(_around(scope, head))
    loops = [node for node in around if isinstance(node, ast.For)]
    after: list[ast.stmt] = []
    inner: ast.stmt = head
    for node in around:
        after += _reached(scope, inner, node, again=any(within(node, loop, scope) for loop in loops))
        inner = node
    after += statements_after(scope, inner)
    if isinstance(function, ast.Lambda) or not always_returns(function.body):
        raise Refusal(_DEPTHS)
    for loop in loops:
        _check_loop(scope, loop)
    return Place(around[-1], after)


def _around(scope: Scope, head: ast.If) -> Iterator[ast.stmt]:
    """Yield the statements around a branch, none of which may be more than a loop or a test of a Python value."""
    node = scope.parents[head]
    while node is not scope.function.node:
        if not isinstance(node, ast.For | ast.If) or (isinstance(node, ast.If) and is_tensor_test(scope, node.test)):
            raise Refusal(_DEPTHS)
        yield node
        node = scope.parents[node]


def _reached(scope: Scope, inner: ast.stmt, outer: ast.AST, *, again: bool) -> list[ast.stmt]:
    """Return what may run after `inner` of the blocks of what is around it, of all of them in another round."""
    if not again:
        return statements_after(scope, inner)
    blocks = [getattr(outer, name, []) for name in ("body", "orelse")]
    return [one for block in blocks for one in block if one is not inner]


def _check_loop(scope: Scope, loop: ast.For) -> None:
    """Make sure that the rounds of a loop may run on."""
    if loop.orelse or not has_known_rounds(scope, loop):
        raise Refusal(f"{scope.quote(loop.iter)} may have a different length in other calls; return after the loop")
    tests = [node.test for node in walk(loop) if isinstance(node, ast.If) and not is_tensor_test(scope, node.test)]
    effects_of(scope, [loop.iter, *tests])


def has_known_rounds(scope: Scope, loop: ast.For) -> bool:
    """Whether a loop goes through what has as many elements in every call that is traced once."""
    rounds = scope.kind(loop.iter.func) if isinstance(loop.iter, ast.Call) else scope.kind(loop.iter)
    known = isinstance(rounds, k.Sequence | k.Object | k.Instance)
    return known or (isinstance(rounds, k.External) and rounds.name in _UNROLLED)


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
