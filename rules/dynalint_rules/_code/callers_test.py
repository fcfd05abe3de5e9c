"""Changes to state in a method that is only called if the state is missing: `if not self.ready: self.prepare(x)`."""

from __future__ import annotations

import ast
from dataclasses import replace

from dynalint.rulekit import FunctionInfo, Project, StateChange, walk_function, way
from dynalint_rules._code.growth import state_name


def at_the_call(event: StateChange, project: Project) -> StateChange | None:
    """Return a change as if it stood at the only call of its method, or None if not each of these calls makes it.

    The result is None as well unless a method calls the changing method on the same object.
    """
    method = event.function
    callers = list(method.called_by)
    if event.home.type != "attribute" or method.owner is None or len(callers) != 1 or callers[0] is method:
        return None
    if state_name(event) not in callers[0].text:
        return None
    if way(event.statement, project.parents(method)) or _may_return_before(method, event.statement.lineno):
        return None
    caller, parents = callers[0], project.parents(callers[0])
    calls = [node for node in walk_function(caller.node) if _calls(node, method.name)]
    if caller.owner is None or len(calls) != 1 or not _is_self(calls[0], caller):
        return None
    statement: ast.AST | None = calls[0]
    while statement is not None and not isinstance(statement, ast.stmt):
        statement = parents.get(statement)
    if not isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign):
        return None
    return replace(event, function=caller, statement=statement)


def _may_return_before(function: FunctionInfo, line: int) -> bool:
    return any(isinstance(node, ast.Return) and node.lineno < line for node in walk_function(function.node))


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name


def _is_self(call: ast.AST, caller: FunctionInfo) -> bool:
    """Return whether a method is called on the first parameter of the method that calls it."""
    arguments = caller.node.args
    first = [*arguments.posonlyargs, *arguments.args][:1]
    receiver = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    return isinstance(receiver, ast.Name) and any(receiver.id == one.arg for one in first)
