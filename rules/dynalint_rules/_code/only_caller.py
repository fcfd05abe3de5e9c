"""Changes to state in a method that is only called if the state is missing: `if not self.ready: self.prepare(x)`."""

from __future__ import annotations

import ast
from dataclasses import replace

from dynalint.rulekit import Project, StateChange, walk_function, way
from dynalint_rules._code.changes import state_name
from dynalint_rules._code.order import may_return_before
from dynalint_rules._code.uses import self_name


def at_the_call(event: StateChange, project: Project) -> StateChange | None:
    """Return a change as if it stood at the only call of its method.

    The result is None if the call does not always make the change, or if it is not on `self` of another method.
    """
    method = event.function
    callers = list(method.called_by)
    if event.home.type != "attribute" or method.owner is None or len(callers) != 1 or callers[0] is method:
        return None
    if way(event.statement, project.parents(method)) or may_return_before(method, event.statement):
        return None
    caller, parents = callers[0], project.parents(callers[0])
    if caller.owner is None or state_name(event) not in caller.text:
        return None
    attributes = (node for node in walk_function(caller.node) if isinstance(node, ast.Attribute))
    named = [node for node in attributes if node.attr == method.name]
    own = len(named) == 1 and ast.unparse(named[0].value) == self_name(caller)
    call = parents.get(named[0]) if own else None
    statement: ast.AST | None = call if isinstance(call, ast.Call) else None
    while statement is not None and not isinstance(statement, ast.stmt):
        statement = parents.get(statement)
    if not isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign):
        return None
    return replace(event, function=caller, statement=statement)
