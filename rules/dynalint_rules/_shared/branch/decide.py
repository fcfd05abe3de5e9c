"""Rewrite any data-dependent decision: a branch, an assertion or a check that raises."""

from __future__ import annotations

import ast
from dataclasses import replace

from dynalint.rulekit import Declined, Event, Project, Refusal, Rewrite
from dynalint_rules._code.decision import Decision, decision_of, is_guard, operand_of
from dynalint_rules._code.scope import Scope, shared
from dynalint_rules._shared.branch.blocks import (
    chain_of,
    head_of,
    split_test,
)
from dynalint_rules._shared.branch.checks import rewrite_assert, rewrite_asserting, rewrite_checking_call, rewrite_guard
from dynalint_rules._shared.branch.choice import rewrite_conditional_expression
from dynalint_rules._shared.branch.chosen_writes import rewrite_writes
from dynalint_rules._shared.branch.counted import NOTHING_COUNTED
from dynalint_rules._shared.branch.early_return import rewrite_early_return
from dynalint_rules._shared.branch.loop_break import rewrite_loop_break
from dynalint_rules._shared.branch.loop_return import rewrite_loop_return
from dynalint_rules._shared.branch.selecting import Writer
from dynalint_rules._shared.branch.split_tests import rewrite_divided, rewrite_nested
from dynalint_rules._shared.branch.truth import truth_of
from dynalint_rules._shared.guard.saved_work import (
    drops_tensor_in_eager,
    keeps_tensor_in_compiled,
    leaves_loop_in_eager,
    makes_tensor_in_compiled,
)
from dynalint_rules._shared.guard.shown_apart import shown_apart
from dynalint_rules._shared.guard.statements import asked_in_eager
from dynalint_rules._shared.mask.hardest import mean_of_hardest
from dynalint_rules._shared.mask.masked import rewrite_masked
from dynalint_rules._shared.mask.shortcuts import rewrite_shortcut
from dynalint_rules._shared.mask.skipped import rewrite_skipped
from dynalint_rules._shared.number.python_numbers import asked_in_python
from dynalint_rules._shared.number.range_loops import over_range

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
    """
    operand = operand_of(event)
    if operand is None:
        return None
    scope = Scope.of(event, project)
    decision = decision_of(scope.parents, operand)
    # All operands of a test have the same rewrite.
    key = operand if decision.form == "value" else decision.node
    rewrite = shared((rewrite_decision, event.function, key), lambda: _with_longer(scope, decision, operand))
    if rewrite is None:
        return Declined({"comprehension": _FILTER, "match": _MATCH}.get(decision.form, value))
    return rewrite


def _with_longer(scope: Scope, decision: Decision, operand: ast.expr) -> Rewrite | None:
    """Return the rewrite of a decision with the longer form of one that leaves out a test, or None."""
    found = _rewritten(scope, decision, operand)
    if found is None or not any(one.endswith(NOTHING_COUNTED) for one in found.conditions):
        return found
    try:
        return replace(found, otherwise=_rewritten(scope.carefully(), decision, operand))
    except Refusal:
        return found


def _rewritten(scope: Scope, decision: Decision, operand: ast.expr) -> Rewrite | None:
    """Return the rewrite of a decision, or None if no rewrite applies."""
    node = decision.node
    if (found := over_range(scope, operand) or asked_in_python(scope, operand)) is not None:
        return found
    if isinstance(node, ast.While):
        raise Refusal(ROUNDS)
    if isinstance(node, ast.If):
        return rewrite_guard(scope, node) if is_guard(node) else rewrite_if(scope, node)
    if decision.form == "ifexp" and isinstance(node, ast.IfExp):
        return keeps_tensor_in_compiled(scope, node) or rewrite_conditional_expression(scope, node)
    if decision.form == "assert" and isinstance(node, ast.Assert):
        return rewrite_assert(scope, node)
    return rewrite_checking_call(scope, operand) if decision.form == "value" else None


def rewrite_if(scope: Scope, statement: ast.If) -> Rewrite:
    """Return the rewrite of the whole chain that an `if` or `elif` belongs to."""
    dropped = mean_of_hardest(scope, statement) or rewrite_masked(scope, statement) or rewrite_skipped(scope, statement)
    dropped = dropped or rewrite_shortcut(scope, statement)
    dropped = dropped or rewrite_asserting(scope, statement)
    if dropped is not None:
        return dropped
    try:
        return _rewrite_as_expressions(scope, statement)
    except Refusal:
        found = makes_tensor_in_compiled(scope, statement) or keeps_tensor_in_compiled(scope, statement)
        found = found or rewrite_divided(scope, statement)
        found = found or rewrite_writes(scope, statement)
        found = found or asked_in_eager(scope, statement) or _left_loop(scope, statement)
        found = found or drops_tensor_in_eager(scope, statement) or shown_apart(scope, statement)
        found = found or rewrite_nested(scope, statement)
        if found is None:
            raise
        return found


def _left_loop(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of a `break`. The longer form is needed unless the other iterations change nothing."""
    found = leaves_loop_in_eager(scope, statement)
    try:
        longer = rewrite_loop_break(scope, statement)
    except Refusal:
        return found
    if found is None or longer is None:
        return found or longer
    return replace(found, otherwise=longer) if found.safety == "conditional" else longer


def _rewrite_as_expressions(scope: Scope, statement: ast.If) -> Rewrite:
    """Replace the assignments to a name in all branches with a single expression."""
    other = rewrite_early_return(scope, statement) or rewrite_loop_return(scope, statement)
    if other is not None:
        return other
    python, test = split_test(scope, statement)
    if python is not None and (statement.orelse or isinstance(statement.body[-1], ast.Return)):
        raise Refusal(f"`{python}` is not a tensor, but it is part of a test with a tensor; test it in a separate `if`")
    # All tests of a chain have the same rewrite.
    key = (_rewrite_chain, scope.function, head_of(scope, statement), python, scope.careful)
    return shared(key, lambda: _rewrite_chain(scope, statement, python, test))


def _rewrite_chain(scope: Scope, statement: ast.If, python: str | None, test: ast.expr) -> Rewrite:
    chain = chain_of(scope, statement)
    truths = [truth_of(scope, one) for one in ([test] if python is not None else chain.tests)]
    writer = Writer(scope, chain, python)
    writer.write(truths)
    return writer.finish(python)
