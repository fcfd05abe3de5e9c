"""Random numbers that are drawn only to be shown. If compiled code does not show them, it does not draw them either."""

from __future__ import annotations

import ast

from dynalint.rulekit import Refusal, k, walk
from dynalint_rules._code.names import loads, only_value, within
from dynalint_rules._code.scope import Scope


def refuse_drawn_for(scope: Scope, call: ast.Call) -> None:
    """Ensure that later random numbers stay the same if compiled code skips a call.

    Raises:
        Refusal: If only the call reads a variable with random numbers.
    """
    for name in dict.fromkeys(one.id for one in walk(call) if isinstance(one, ast.Name)):
        value = only_value(scope, name, call)
        if value is None or not _draws(scope, value):
            continue
        if all(within(one, call, scope) for one in loads(scope, name)):
            raise Refusal(
                f"`{name}` is only used here, so compiled code would no longer draw it, which changes all later random "
                "numbers; remove both if that makes no difference"
            )


def _draws(scope: Scope, value: ast.expr) -> bool:
    called = scope.kind(value.func) if isinstance(value, ast.Call) else None
    entry = scope.project.api.function(called.name) if isinstance(called, k.External) else None
    return entry is not None and "random" in entry.flags
