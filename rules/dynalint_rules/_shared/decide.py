"""One rewrite for all that a tensor can decide: a branch, a guard, an assertion."""

from __future__ import annotations

import ast
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from dynalint.analysis.events import Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Rewrite
from dynalint_rules._shared.carried_loop import leaves_endless_loop, rewrite_endless_loop, rewrite_while
from dynalint_rules._shared.checks import rewrite_assert, rewrite_guard
from dynalint_rules._shared.choice import rewrite_conditional_expression
from dynalint_rules._shared.decision import Decision, decision_of, is_guard
from dynalint_rules._shared.none_side import rewrite_none_side
from dynalint_rules._shared.saved import with_saved
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.settled import settled_tests
from dynalint_rules._shared.where import rewrite_if

# What is computed once more in the longer forms, the longest first.
_FORMS: tuple[Literal["", "kept", "all"], ...] = ("all", "kept", "")

_FILTER = (
    "the condition decides how many elements there are, and tensors need a size known beforehand; "
    "keep all elements and give those that do not count a weight of zero with `torch.where`"
)
_MATCH = (
    "a `match` on a tensor has no form in tensor operations; write it as `if` and `elif`, "
    "or decide outside the compiled code"
)


def rewrite_decision(event: Event, operand: ast.expr, project: Project, *, value: str) -> Rewrite | Declined:
    """Return the rewrite of what `operand`, at which `event` stands, decides, or why there is none.

    `value` is the sentence that declines where it decides nothing but is used as a value.
    """
    try:
        scope = Scope.of(event, project)
        decision = decision_of(scope.parents, operand)
        rewrite = _rewritten(scope, decision)
    except Refusal as refusal:
        return Declined(str(refusal))
    if rewrite is None:
        return Declined({"comprehension": _FILTER, "match": _MATCH}.get(decision.form, value))
    longer: Rewrite | None = None
    for recomputes in _FORMS:
        with suppress(Refusal):
            sheltered = replace(Scope.of(event, project), shelter=decision.node, recomputes=recomputes)
            form = _rewritten(sheltered, decision)
            form = form and with_saved(sheltered, form)
            if form is not None and form.replacements not in (rewrite.replacements, longer and longer.replacements):
                longer = replace(form, sheltered=longer)
    return replace(rewrite, sheltered=longer)


def _rewritten(scope: Scope, decision: Decision) -> Rewrite | None:
    """Return the rewrite of a decision; None where there is nothing that could be one.

    Raises:
        Refusal: it would not do the same.
    """
    node = decision.node
    if isinstance(node, ast.While):
        return rewrite_while(scope, node)
    if isinstance(node, ast.If) and leaves_endless_loop(scope, node):
        return rewrite_endless_loop(scope, node)
    if isinstance(node, ast.If) and not is_guard(node):
        return replace(rewrite_if(scope, node), settled=settled_tests(scope))
    if isinstance(node, ast.If):
        return rewrite_guard(scope, node)
    if decision.form == "ifexp" and isinstance(node, ast.IfExp):
        rewrite = rewrite_none_side(scope, node) or rewrite_conditional_expression(scope, node)
        return replace(rewrite, settled=settled_tests(scope))
    if decision.form == "assert" and isinstance(node, ast.Assert):
        return rewrite_assert(scope, node)
    return None
