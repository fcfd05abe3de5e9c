"""Tests for NaN and infinity, which protect gradients as well as values.

`torch.where` passes a gradient of zeros to the tensor that it does not select. If that tensor is NaN, zero times its
own gradient is NaN too, and reaches everything that it was computed from.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from dynalint.rulekit import Refusal, walk
from dynalint_rules._code.autograd import without_gradients
from dynalint_rules._code.calls import callee
from dynalint_rules._code.names import only_value
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.branch_values import gradient_conditions, gradients_read

_QUESTIONS = ("isnan", "isinf", "isfinite")


def gradients_of_both(
    scope: Scope, tests: Sequence[ast.expr], branches: Iterable[set[str]], layers: dict[str, None], branch: ast.AST
) -> list[str]:
    """Return the conditions for tensors that only some branches read, whose gradient becomes zeros instead of None.

    `branches` are results of `reads_of`, and `layers` are called modules that may have parameters.

    Raises:
        Refusal: If a branch drops a tensor that a test finds not to be finite.
    """
    asked = {name for test in tests for name in _asked(scope, test, branch)}
    branches = list(branches)
    unequal = {name for own in branches for name in own if not all(name in other for other in branches)}
    spread = sorted(asked & unequal)
    if spread and not _has_no_gradients(scope, branch):
        raise Refusal(
            f"where the test finds NaN, `torch.where` would also make the gradient of `{spread[0]}` NaN; prevent NaN "
            "before it arises, or skip the step outside the compiled code"
        )
    return gradient_conditions(branches, layers)


def _asked(scope: Scope, test: ast.expr, branch: ast.AST) -> Iterator[str]:
    """Yield the tensors with gradients of which a test asks whether they are finite."""
    for node in walk(test):
        if isinstance(node, ast.Name) and (value := only_value(scope, node.id, branch)) is not None:
            yield from _asked(scope, value, branch)
        elif isinstance(node, ast.Call) and callee(scope, node).rpartition(".")[2] in _QUESTIONS:
            for part in (*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])):
                yield from gradients_read(scope, part, branch)


def _has_no_gradients(scope: Scope, node: ast.AST) -> bool:
    while node is not scope.function.node:
        if isinstance(node, ast.With) and without_gradients(node):
            return True
        node = scope.parents[node]
    return without_gradients(scope.function)
