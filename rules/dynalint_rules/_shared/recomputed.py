"""What a name was computed from, to compute it once more where one side of a test alone goes on with it.

In `d = (x * x).sum().sqrt()`, then `if d > 0: x = x / d`, zeros that flow back to `d` meet the infinite slope of the
square root at zero, although the branch has nothing to do with that. No choice after it helps: the square root has to
be computed of something else, `torch.where(d > 0, (x * x).sum(), 1.0).sqrt()`, where the branch is not taken.
"""

from __future__ import annotations

import ast

from dynalint.analysis.steps import walk
from dynalint_rules._shared.blocks import is_elif
from dynalint_rules._shared.cheap import is_cheap
from dynalint_rules._shared.faint import is_wanted_by, read_in
from dynalint_rules._shared.memory import changes_in_place, on_another_side, sharing
from dynalint_rules._shared.names import end_of, is_named, last_value, statement_of
from dynalint_rules._shared.scope import Scope


def definition_of(scope: Scope, name: str, at: ast.stmt) -> tuple[ast.stmt, ast.expr] | None:
    """Return the statement before the test that `name` has its value from at a statement, and the expression.

    None where it is not certain which that is, or where the expression takes long, draws random numbers, or reads what
    may have changed since without having got another name.
    """
    made, value = last_value(scope, name, at) or (None, None)
    if (
        made is None
        or value is None
        or made.lineno >= _test(scope).lineno
        or not is_cheap(scope, value, layers=scope.layers)
    ):
        return None
    return None if _is_changed(scope, name, end_of(made), at) else (made, value)


def is_held(scope: Scope, name: str, since: ast.stmt, until: ast.stmt) -> bool:
    """Whether a name still stands at the statement `until` for what the statement `since` reads."""
    return not _is_changed(scope, name, (since.lineno, since.col_offset), until)


def is_kept(scope: Scope, name: str, since: ast.stmt, until: ast.stmt) -> bool:
    """Whether the tensor that the statement `since` reads under a name is not changed in place before `until`."""
    start, end = (since.lineno, since.col_offset), (until.lineno, until.col_offset)
    changes = [one for shared in sharing(scope, name) for one in changes_in_place(scope, shared)]
    return not any(start <= (one.lineno, one.col_offset) < end for one in changes)


def _is_changed(scope: Scope, name: str, start: tuple[int, int], at: ast.stmt) -> bool:
    """Whether `name` is set, or its tensor changed in place, from a place on to the beginning of `at`.

    What stands on another side of a branch than `at` does not count: where that is taken, this is not.
    """
    end = (at.lineno, at.col_offset)
    named = [one for one in walk(scope.function.node) if is_named(one, name)]
    stores = [one for one in named if not isinstance(getattr(one, "ctx", None), ast.Load)]
    changes = [one for shared in sharing(scope, name) for one in changes_in_place(scope, shared)]
    return any(
        start <= (one.lineno, one.col_offset) < end and not on_another_side(scope, one, at)
        for one in [*stores, *changes]
    )


def is_used_throughout(scope: Scope, name: str) -> bool:
    """Whether what a name holds before the test is used whichever side is taken, so that its gradient is never idle."""
    decision, test = scope.shelter, _test(scope)
    if isinstance(decision, ast.IfExp):
        read = [name in read_in([side], asked=False) for side in (decision.body, decision.orelse)]
        set_anew = isinstance(test, ast.Assign) and any(is_named(target, name) for target in test.targets)
        return all(read) or (not set_anew and is_wanted_by(scope, name, (), test, asked=False))
    if not isinstance(test, ast.If):
        return False
    sides = [test.body]
    while len(test.orelse) == 1 and isinstance(test.orelse[0], ast.If) and is_elif(scope, test.orelse[0]):
        test = test.orelse[0]
        sides.append(test.body)
    return all(is_wanted_by(scope, name, side, _test(scope), asked=False) for side in [*sides, test.orelse])


def _test(scope: Scope) -> ast.stmt:
    """The statement that the decision stands in, the first of a chain of `if` and `elif`."""
    assert scope.shelter is not None
    statement = statement_of(scope, scope.shelter)
    while is_elif(scope, statement):
        statement = statement_of(scope, scope.parents[statement])
    return statement
