"""Rewrite a data-dependent branch with `torch.where`, which computes both branches and selects one."""

from __future__ import annotations

import ast
from dataclasses import replace

from dynalint.rulekit import Refusal, Rewrite
from dynalint_rules._code.scope import Scope, shared
from dynalint_rules._shared.branch.blocks import (
    chain_of,
    head_of,
    split_test,
)
from dynalint_rules._shared.branch.checks import rewrite_asserting
from dynalint_rules._shared.branch.chosen_writes import rewrite_writes
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
from dynalint_rules._shared.mask.masked import rewrite_masked
from dynalint_rules._shared.mask.shortcuts import rewrite_shortcut


def rewrite_if(scope: Scope, statement: ast.If) -> Rewrite:
    """Return the rewrite of the whole chain that an `if` or `elif` belongs to.

    Raises:
        Refusal: If the rewrite would not be equivalent.
    """
    dropped = rewrite_masked(scope, statement) or rewrite_shortcut(scope, statement)
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
    key = (_rewrite_chain, scope.function, head_of(scope, statement), python)
    return shared(key, lambda: _rewrite_chain(scope, statement, python, test))


def _rewrite_chain(scope: Scope, statement: ast.If, python: str | None, test: ast.expr) -> Rewrite:
    chain = chain_of(scope, statement)
    truths = [truth_of(scope, one) for one in ([test] if python is not None else chain.tests)]
    writer = Writer(scope, chain, python)
    writer.write(truths)
    return writer.finish(python)
