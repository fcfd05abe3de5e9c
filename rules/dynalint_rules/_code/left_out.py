"""Code that no call reaches unless an exception, a number that is not finite, or what is off by default leads there."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Literal

from dynalint.rulekit import ContainerChange, FunctionInfo, Project, StateChange, walk, walk_function, way
from dynalint_rules._code.changes import names, reached_functions, related, state_name
from dynalint_rules._code.initial import as_built, by_default, compared, only_default
from dynalint_rules._code.names import around

_MOST_CALLERS = 3
# Whether a test that calls this function passes for numbers as they should be.
_EXPECTED = {"isnan": False, "isinf": False, "isfinite": True}


def category_of(event: StateChange | ContainerChange, project: Project) -> Literal["advice"] | None:
    """Return the category of a finding about a change that is advice if no call is known to make the change."""
    left_out = is_left_out(event.statement, event.function, project) or _is_undone(event, project)
    return "advice" if left_out or is_in_autograd(event.function, project) else None


def is_in_autograd(function: FunctionInfo, project: Project) -> bool:
    """Return whether an autograd function runs the code. Dynamo does not compile one that changes state."""
    owners = [one.owner for one in (function, *function.callers) if one.owner is not None]
    return any("torch.autograd.Function" in project.lineage(one)[1] for one in owners)


def _is_undone(event: StateChange | ContainerChange, project: Project) -> bool:
    """Return whether other compiled code does the opposite, as in `self.used += n` and `self.used -= n`."""
    statement, opposite = event.statement, {ast.Add: ast.Sub, ast.Sub: ast.Add}
    if not isinstance(statement, ast.AugAssign) or type(statement.op) not in opposite:
        return False
    name = state_name(event)
    return any(
        isinstance(one, ast.AugAssign)
        and isinstance(one.op, opposite[type(statement.op)])
        and names(one.target, name)
        and related(function.owner, event.function.owner, project)
        for function in reached_functions(project, name)
        for one in walk_function(function.node)
    )


def is_left_out(node: ast.AST, function: FunctionInfo, project: Project, callers: int = _MOST_CALLERS) -> bool:
    """Return whether code handles an exception, or stands behind an option that nothing in the project turns on."""
    parents = project.parents(function)
    arms = [*way(node, parents), *_passed(node, parents)]
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


def _passed(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> Iterator[tuple[ast.AST, str]]:
    """Yield each earlier `if` around a node whose body returns, with the branch that goes on."""
    inner: ast.AST | None = node
    while inner is not None:
        for one in around(parents, inner)[0] if isinstance(inner, ast.stmt) else ():
            if isinstance(one, ast.If) and not one.orelse and isinstance(one.body[-1], ast.Return):
                yield one, "orelse"
        inner = parents.get(inner)


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
    if isinstance(test, ast.Call):
        called = {ast.unparse(one.func).rpartition(".")[2] for one in walk(test) if isinstance(one, ast.Call)}
        return next((expected for name, expected in _EXPECTED.items() if name in called), None)
    if function.owner is not None:
        own = by_default(test, function.owner, project)
        own = as_built(test, function.owner, project) if own is None else own
        if own is not None:
            return own
    default = only_default(test.left if isinstance(test, ast.Compare) else test, function, project)
    if default is None:
        return None
    return compared(test, default.value) if isinstance(test, ast.Compare) else bool(default.value)
