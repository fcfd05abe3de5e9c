"""The new value of state, also if code gives it a name before it stores it.

total = self.count + n
self.count = total
"""

from __future__ import annotations

import ast

from dynalint.rulekit import Project, StateChange, walk
from dynalint_rules._code.names import only_value
from dynalint_rules._code.scope import Scope


def new_value(event: StateChange, project: Project) -> ast.expr | None:
    """Return the expression that an assignment stores, or None for any other statement.

    For a name, it is the name's only value, if that is computed from the state.
    """
    statement = event.statement
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    (target,), value = statement.targets, statement.value
    if not isinstance(value, ast.Name) or not isinstance(target, ast.Attribute):
        return value
    named = only_value(Scope(project, event.function), value.id, statement)
    return named if named is not None and mentions_target(named, target) else value


def mentions_target(value: ast.expr, target: ast.Attribute) -> bool:
    """Return whether an expression reads the attribute that is assigned."""
    place = ast.unparse(target)
    return any(isinstance(one, ast.Attribute) and ast.unparse(one) == place for one in walk(value))


def is_computed_from_old(event: StateChange, project: Project) -> bool:
    """Return whether the new value is computed from the old one."""
    statement = event.statement
    return event.reads_old or (isinstance(statement, ast.Assign) and new_value(event, project) is not statement.value)
