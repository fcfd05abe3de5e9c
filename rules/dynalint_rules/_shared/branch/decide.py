"""Rewrite any data-dependent decision: a branch, an assertion or a check that raises."""

from __future__ import annotations

import ast

from dynalint.rulekit import Declined, Event, Project, Refusal, Rewrite
from dynalint_rules._code.decision import Decision, decision_of, is_guard, operand_of
from dynalint_rules._code.scope import Scope, shared
from dynalint_rules._shared.branch.checking_calls import rewrite_checking_call
from dynalint_rules._shared.branch.checks import rewrite_assert, rewrite_guard
from dynalint_rules._shared.branch.choice import rewrite_conditional_expression
from dynalint_rules._shared.branch.where import rewrite_if
from dynalint_rules._shared.guard.saved_work import keeps_tensor_in_compiled

_FILTER = (
    "the condition decides how many elements there are, but tensors need a known size; keep all elements, and "
    "give them a weight of zero where the condition is false"
)
_MATCH = (
    "a `match` on a tensor has no equivalent in tensor operations; use `if` and `elif`, or decide outside the "
    "compiled code"
)

ROUNDS = (
    "the number of iterations depends on data; run a fixed number and use `torch.where` to keep finished "
    "results, or run the loop outside the compiled code"
)


def rewrite_decision(event: Event, project: Project, *, value: str) -> Rewrite | Declined | None:
    """Return the rewrite of the decision on an event's expression, or the reason why there is none.

    `value` is the reason to give if the expression is used as a value rather than in a test.

    Raises:
        Refusal: If the rewrite would not be equivalent.
    """
    operand = operand_of(event)
    if operand is None:
        return None
    scope = Scope.of(event, project)
    decision = decision_of(scope.parents, operand)
    # All operands of a test have the same rewrite.
    key = operand if decision.form == "value" else decision.node
    rewrite = shared((rewrite_decision, event.function, key), lambda: _rewritten(scope, decision, operand))
    if rewrite is None:
        return Declined({"comprehension": _FILTER, "match": _MATCH}.get(decision.form, value))
    return rewrite


def _rewritten(scope: Scope, decision: Decision, operand: ast.expr) -> Rewrite | None:
    """Return the rewrite of a decision, or None if no rewrite applies."""
    node = decision.node
    if isinstance(node, ast.While):
        raise Refusal(ROUNDS)
    if isinstance(node, ast.If):
        return rewrite_guard(scope, node) if is_guard(node) else rewrite_if(scope, node)
    if decision.form == "ifexp" and isinstance(node, ast.IfExp):
        return keeps_tensor_in_compiled(scope, node) or rewrite_conditional_expression(scope, node)
    if decision.form == "assert" and isinstance(node, ast.Assert):
        return rewrite_assert(scope, node)
    return rewrite_checking_call(scope, operand) if decision.form == "value" else None
