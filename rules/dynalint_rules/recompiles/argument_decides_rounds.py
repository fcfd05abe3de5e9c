"""DYN802: a loop whose number of iterations depends on an argument."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import FunctionInfo, Iteration, Project, Rule, Violation, k, walk
from dynalint_rules._code.growth import UP_TO_LIMIT


class ArgumentDecidesRounds(Rule):
    code = "DYN802"
    name = "argument-decides-rounds"
    summary = "An argument decides how many times a loop runs, so each number of iterations requires a separate graph"
    category = "advice"
    severity = "info"
    events = (Iteration,)

    def check(self, event: Iteration, project: Project) -> Iterable[Violation]:
        """Flag loops over arguments of the outermost compiled functions."""
        if event.function.caller is not None or not isinstance(event.kind, k.Sequence):
            return
        name = _argument(event.node, event.kind)
        if name is not None and _is_passed_in(name, event.function):
            yield Violation(
                event.node,
                f"the caller's `{name}` decides how many times this loop runs, so each number of iterations "
                f"recompiles the function {UP_TO_LIMIT}",
                help="Compile only the body of the loop, and run the loop in the caller.",
            )


def _argument(node: ast.expr | ast.stmt, kind: k.Sequence) -> str | None:
    """Return the name that a loop over `range(name)` or over `name` itself depends on."""
    if isinstance(node, ast.Name) and kind.type in ("list", "tuple") and kind.items is None:
        return node.id
    if isinstance(node, ast.Call) and kind.type == "range" and node.args:
        last = node.args[min(1, len(node.args) - 1)]
        return last.id if isinstance(last, ast.Name) else None
    return None


def _is_passed_in(name: str, function: FunctionInfo) -> bool:
    """Return whether a name is a parameter that the function never reassigns."""
    return any(one.arg == name for one in function.named) and not any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for node in walk(function.node)
    )
