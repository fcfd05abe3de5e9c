"""Dropping a test that decides nothing, because the code is the same on both sides of it.

if mask.sum() == 0:             return self.encode(x)
return self.encode(x)
return self.encode(x)
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dynalint import rewriting as rw
from dynalint.rules import Rewrite
from dynalint_rules._shared.blocks import is_elif, statements_after
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.scope import Scope

_TITLE = "Drop the test, both sides of which do the same"


def rewrite_idle(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite that leaves one of two equal sides, None where they differ or the test does anything."""
    if is_elif(scope, statement) or not is_pure(scope, statement.test):
        return None
    conditions = (f"{scope.quote(statement.test)} raises nothing",)
    if statement.orelse:
        if not _same(statement.body, statement.orelse):
            return None
        return Rewrite(_TITLE, "conditional", rw.written(scope.file, (statement, statement.body)), conditions)
    if isinstance(statement.body[-1], ast.Return) and _same(statement.body, statements_after(scope, statement)):
        return Rewrite(_TITLE, "conditional", rw.written(scope.file, (statement, [])), conditions)
    return None


def _same(one: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> bool:
    return [ast.dump(statement) for statement in one] == [ast.dump(statement) for statement in other]
