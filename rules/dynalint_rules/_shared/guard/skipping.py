"""Checks that compiled code can skip a call or a test: nothing else depends on computing it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dynalint.rulekit import Refusal
from dynalint_rules._code.effects import implies_nothing, is_pure
from dynalint_rules._code.raising import never_raises, shows_without_raising
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.guard.drawn import refuse_drawn_for


def check_arguments(scope: Scope, call: ast.Call) -> None:
    """Ensure that compiled code can skip a call that only displays its arguments.

    Raises:
        Refusal: If computing or formatting the arguments has side effects, which code runs next depends on an
            exception, or random numbers are drawn only for the call.
    """
    parts = [*call.args, *(keyword.value for keyword in call.keywords)]
    check_left_out(scope, parts)
    if not implies_nothing(scope, call):
        raise Refusal(
            f"{scope.quote(call)} calls methods of its arguments that may have side effects, and these would be "
            "skipped too; assign the text to a variable first and print that"
        )
    refuse_drawn_for(scope, call)
    for part in parts if is_caught(scope, call) else []:
        if not shows_without_raising(scope, part):
            raise may_raise(scope, part)


def check_left_out(scope: Scope, parts: Sequence[ast.expr]) -> None:
    """Ensure that expressions have no side effects, because compiled code would skip them.

    Raises:
        Refusal: If an expression may have a side effect.
    """
    for part in parts:
        if not is_pure(scope, part.value if isinstance(part, ast.Starred) else part):
            raise Refusal(
                f"evaluating {scope.quote(part)} may have a side effect, and this would be skipped too; assign "
                "it to a variable first"
            )


def may_raise(scope: Scope, part: ast.expr) -> Refusal:
    """Return the reason why compiled code cannot skip an expression if exceptions are caught."""
    return Refusal(
        f"evaluating {scope.quote(part)} may raise an exception, and the function catches exceptions; assign it "
        "to a variable first"
    )


def may_go_unasked(scope: Scope, test: ast.expr) -> bool:
    """Return whether compiled code can skip a test that only affects output."""
    pure = is_pure(scope, test) and implies_nothing(scope, scope.parents[test])
    return pure and (never_raises(scope, test) or not is_caught(scope, test))


def is_caught(scope: Scope, node: ast.AST) -> bool:
    """Return whether the function would continue differently if `node` raised."""
    while node is not scope.function.node:
        parent = scope.parents[node]
        if isinstance(parent, ast.Try) and parent.handlers and node in parent.body:
            return True
        if isinstance(parent, ast.With) and any("suppress" in ast.unparse(one.context_expr) for one in parent.items):
            return True
        node = parent
    return False
