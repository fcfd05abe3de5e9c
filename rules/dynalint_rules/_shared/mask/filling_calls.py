"""Remove the test around a call that gets the mask, because the call changes nothing where the mask is false.

if missing.any():                       x = self.fill(x, missing)
    x = self.fill(x, missing)
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from dynalint.rulekit import Refusal, Rewrite, k, rw
from dynalint_rules._code.effects import effects_of_always
from dynalint_rules._code.memory import is_own
from dynalint_rules._code.names import is_named
from dynalint_rules._code.saved_tensors import refuse_changed_later, switch_conditions
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.blocks import is_elif, split_test
from dynalint_rules._shared.branch.branch_values import FINITE, NO_RAISE, SAME_FORM
from dynalint_rules._shared.branch.choice import finished
from dynalint_rules._shared.mask.masked import mask_of_something

_TITLE = "Remove the test, because it does not change the result"


def rewrite_filling_call(scope: Scope, statement: ast.If, longer: Callable[[], Rewrite]) -> Rewrite | None:
    """Return the rewrite that always makes the call, or None unless the branch does nothing else.

    `longer` returns the rewrite that selects between the result and the old value.

    Raises:
        Refusal: If the call must not be made every time.
    """
    only = statement.body[0]
    if scope.careful or len(statement.body) > 1 or statement.orelse or is_elif(scope, statement):
        return None
    if not isinstance(only, ast.Assign) or len(only.targets) > 1 or not isinstance(only.targets[0], ast.Name):
        return None
    (python, test), name, call = split_test(scope, statement), only.targets[0].id, only.value
    mask = mask_of_something(scope, test)
    if mask is None or not isinstance(call, ast.Call) or not _takes(call, name, mask):
        return None
    if not isinstance(scope.kind(call.func), k.Function):
        return None
    effects_of_always(scope, [call], statement)
    refuse_changed_later(scope, [mask], statement, handed=True)
    conditions = [
        f"{scope.quote(call)} equals `{name}` if {scope.quote(mask)} selects nothing",
        SAME_FORM,
        NO_RAISE,
        FINITE,
    ]
    conditions += switch_conditions(scope, name, call)
    if not is_own(scope, name, statement):
        conditions.append(f"no code relies on receiving the tensor `{name}` itself instead of an equal copy")
    change = (statement, statement.body) if python is None else (statement.test, python)
    found = finished(scope, _TITLE, rw.written(scope.file, change), conditions)
    try:
        return replace(found, otherwise=longer())
    except Refusal:
        return found


def _takes(call: ast.Call, name: str, mask: ast.expr) -> bool:
    """Return whether a call gets a name's value and the mask, or its inverse."""
    given = [*call.args, *(one.value for one in call.keywords)]
    wanted = ast.dump(_upright(mask))
    return any(is_named(one, name) for one in given) and any(ast.dump(_upright(one)) == wanted for one in given)


def _upright(mask: ast.expr) -> ast.expr:
    return mask.operand if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert) else mask
