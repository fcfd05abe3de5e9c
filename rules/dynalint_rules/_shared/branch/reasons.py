"""Reasons why a statement cannot be in a branch that becomes an expression, with advice for a manual rewrite."""

from __future__ import annotations

import ast

from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.truth import is_tensor_test


def why_not(scope: Scope, statement: ast.stmt) -> str:
    """Return the reason why a statement cannot be in a branch that becomes an expression."""
    shown = scope.quote(statement)
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if any(isinstance(target, ast.Attribute) for target in targets):
            return f"a branch stores state, {shown}; compute the value with `torch.where` and store it on every call"
        if any(isinstance(target, ast.Subscript) for target in targets):
            return f"a branch modifies something in place, {shown}; compute the new value with `torch.where` instead"
        return f"a branch assigns to more than one target at once, {shown}; assign them one by one"
    if isinstance(statement, ast.Raise):
        return "a branch raises an exception; check with `torch._assert_async` in a separate statement"
    if isinstance(statement, ast.Break):
        return "a branch leaves the loop; run a fixed number of iterations and use `torch.where` with a `done` mask"
    if isinstance(statement, ast.Continue):
        return (
            "a branch continues with the next iteration; always compute the rest of the iteration and select "
            "with `torch.where`"
        )
    if isinstance(statement, ast.If):
        if is_tensor_test(scope, statement.test):
            return f"a branch contains another `if`, on {scope.quote(statement.test)}; rewrite that `if` first"
        return f"a branch contains an `if` on the Python value {scope.quote(statement.test)}; move it before this test"
    if isinstance(statement, ast.For | ast.While | ast.With | ast.Try | ast.AsyncFor | ast.AsyncWith | ast.Match):
        keyword = type(statement).__name__.lower().removeprefix("async")
        return f"a branch contains a `{keyword}` statement; move the branch into a function that returns a tensor"
    if isinstance(statement, ast.Expr):
        return (
            f"a branch runs {shown} for its side effect, which must not happen when the other branch is taken; "
            "move it out of the branch"
        )
    return f"a branch contains {shown}, which is more than an assignment; select with `torch.where` instead"
