"""One rewrite for all that a tensor can decide: a branch, a guard, an assertion."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import Literal

from dynalint.analysis.events import Event
from dynalint.analysis.project import Project
from dynalint.findings import Safety
from dynalint.rules import Declined, Rewrite
from dynalint_rules._shared.carried_loop import leaves_endless_loop, rewrite_endless_loop, rewrite_while
from dynalint_rules._shared.checks import rewrite_assert, rewrite_guard
from dynalint_rules._shared.choice import rewrite_conditional_expression
from dynalint_rules._shared.decided import rewrite_decided
from dynalint_rules._shared.decision import Decision, decision_of, is_guard
from dynalint_rules._shared.none_side import rewrite_none_side
from dynalint_rules._shared.saved import with_saved
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.settled import settled_tests
from dynalint_rules._shared.where import rewrite_if

# What is computed once more in the longer forms, and whether layers are: these take the most time, and come last.
_FORMS: tuple[tuple[Literal["", "kept", "all"], bool], ...] = (
    ("", False),
    ("kept", False),
    ("all", False),
    ("kept", True),
    ("all", True),
)

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
    if isinstance(scope.function.node, ast.Lambda):
        return rewrite  # no statement holds what the longer forms are about
    forms = [rewrite]
    for recomputes, layers in _FORMS:
        with suppress(Refusal):
            scope = Scope.of(event, project)
            sheltered = replace(scope, shelter=decision.node, recomputes=recomputes, layers=layers)
            form = _rewritten(sheltered, decision)
            form = form and _with_assumed(sheltered, with_saved(sheltered, form))
            if form is not None and all(form.replacements != other.replacements for other in forms):
                forms.append(form)
    return reduce(lambda longer, form: replace(form, sheltered=longer), reversed(forms))


def _with_assumed(scope: Scope, rewrite: Rewrite) -> Rewrite:
    """Return a rewrite under the condition that what it keeps infinities from is what it takes that for."""
    words = {word for one in rewrite.replacements for word in re.findall(r"\w+", one.content)}
    assumed = [f"`{name}` is a tensor" for name in sorted(scope.assumed & words)]
    if not assumed:
        return rewrite
    safety: Safety = "conditional" if rewrite.safety == "safe" else rewrite.safety
    return replace(rewrite, safety=safety, conditions=tuple(dict.fromkeys([*rewrite.conditions, *assumed])))


def _rewritten(scope: Scope, decision: Decision) -> Rewrite | None:
    """Return the rewrite of a decision; None where there is nothing that could be one.

    Raises:
        Refusal: it would not do the same.
    """
    node = decision.node
    if isinstance(node, ast.If | ast.IfExp) and (decided := rewrite_decided(scope, node)) is not None:
        return decided
    if isinstance(node, ast.While):
        return rewrite_while(scope, node)
    if isinstance(node, ast.If) and leaves_endless_loop(scope, node):
        return rewrite_endless_loop(scope, node)
    if isinstance(node, ast.If) and not is_guard(node):
        rewrite = rewrite_if(scope, node)
        return replace(rewrite, settled=(*rewrite.settled, *settled_tests(scope)))
    if isinstance(node, ast.If):
        return rewrite_guard(scope, node)
    if decision.form == "ifexp" and isinstance(node, ast.IfExp):
        rewrite = rewrite_none_side(scope, node) or rewrite_conditional_expression(scope, node)
        return replace(rewrite, settled=settled_tests(scope))
    if decision.form == "assert" and isinstance(node, ast.Assert):
        return rewrite_assert(scope, node)
    return None
