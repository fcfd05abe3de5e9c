"""Code that no call reaches unless it raises, or unless an option is given that is off by default."""

from __future__ import annotations

import ast
from typing import Literal

from dynalint.rulekit import ContainerChange, FunctionInfo, Project, StateChange, walk_function, way
from dynalint_rules._code.initial import by_default, compared, only_default

_MOST_CALLERS = 3


def category_of(event: StateChange | ContainerChange, project: Project) -> Literal["advice"] | None:
    """Return the category of a finding about a change that is advice if no call is known to make the change."""
    return "advice" if is_left_out(event.statement, event.function, project) else None


def is_left_out(node: ast.AST, function: FunctionInfo, project: Project, callers: int = _MOST_CALLERS) -> bool:
    """Return whether code handles an exception, or stands behind an option that nothing in the project turns on."""
    arms = way(node, project.parents(function))
    if any(isinstance(one, ast.ExceptHandler) or _is_other(one, arm, function, project) for one, arm in arms):
        return True
    calls = [(caller, call) for caller in function.called_by for call in _names(function.name, caller)]
    return bool(calls and callers) and all(is_left_out(call, one, project, callers - 1) for one, call in calls)


def _names(name: str, caller: FunctionInfo) -> list[ast.AST]:
    """Return where a function names another one, or the function itself if it calls the other in another way."""
    nodes = [
        node for node in walk_function(caller.node) if name in (getattr(node, "attr", None), getattr(node, "id", None))
    ]
    return nodes or [caller.node]


def _is_other(node: ast.AST, arm: str, function: FunctionInfo, project: Project) -> bool:
    """Return whether a branch is not taken by default."""
    if arm not in ("body", "orelse") or not isinstance(node, ast.If | ast.IfExp):
        return False
    return _outcome(node.test, function, project) is (arm == "orelse")


def _outcome(test: ast.expr, function: FunctionInfo, project: Project) -> bool | None:
    """Return the outcome of a test if all options have their defaults, or None if something else decides."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        outcome = _outcome(test.operand, function, project)
        return None if outcome is None else not outcome
    if isinstance(test, ast.BoolOp):
        deciding = isinstance(test.op, ast.Or)
        outcomes = {_outcome(one, function, project) for one in test.values}
        return deciding if deciding in outcomes else None if None in outcomes else not deciding
    own = by_default(test, function.owner, project) if function.owner is not None else None
    if own is not None:
        return own
    default = only_default(test.left if isinstance(test, ast.Compare) else test, function, project)
    if default is None:
        return None
    return compared(test, default.value) if isinstance(test, ast.Compare) else bool(default.value)
