"""Statements that do not affect a function's result, because only other statements of the same kind use their values.

For example, compiled code can skip both `start = time.time()` and `print(time.time() - start)`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from dynalint.rulekit import Event, Refusal, Rewrite, walk, walk_function
from dynalint_rules._code.calls import callee
from dynalint_rules._code.eager import is_in_eager_code
from dynalint_rules._code.effects import SHOWS, effects_of
from dynalint_rules._code.names import statement_of
from dynalint_rules._code.raising import never_raises
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.guard.skipping import is_caught, may_raise
from dynalint_rules._shared.guard.statements import guarded_all


def guarded_bystanders(scope: Scope, event: Event, watched: Callable[[str], bool], title: str) -> Rewrite:
    """Run an event's statement, and all statements that its value reaches, only in eager code.

    `watched` says whether compiled code can skip a call with a given dotted name.

    Raises:
        Refusal: If the value, or one derived from it, is used elsewhere.
    """
    group = _Group(scope, watched)
    group.take(event.statement)
    return guarded_all(scope, list(group.members), title)


@dataclass
class _Group:
    """The statements found so far."""

    scope: Scope
    watched: Callable[[str], bool]
    members: dict[ast.stmt, None] = field(default_factory=dict)

    def take(self, statement: ast.stmt) -> None:
        """Add a statement and the statements that its value reaches."""
        if statement in self.members or is_in_eager_code(self.scope, statement):
            return
        self.members[statement] = None
        if isinstance(statement, ast.Expr):
            self._check_value(statement.value)
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign) and statement.value is not None:
            self._check_value(statement.value)
            for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                self._follow(target)
        else:
            raise self._refusal(statement)

    def _check_value(self, value: ast.expr) -> None:
        effects_of(self.scope, [value], besides=self._may_be_left_out)
        for node in walk(value) if is_caught(self.scope, value) else ():
            left_out = isinstance(node, ast.Call) and self._may_be_left_out(node)
            if isinstance(node, ast.Call | ast.Subscript) and not left_out and not never_raises(self.scope, node):
                raise may_raise(self.scope, node)

    def _may_be_left_out(self, call: ast.Call) -> bool:
        name = callee(self.scope, call)
        return self.watched(name) or name.startswith(SHOWS)

    def _follow(self, target: ast.expr) -> None:
        scope = self.scope
        if not isinstance(target, ast.Name) or target.id not in scope.function.locals:
            raise self._refusal(target)
        own = set(walk_function(scope.function.node))
        for node in walk(scope.function.node):
            if isinstance(node, ast.arg) and node.arg == target.id:
                raise self._refusal(target)
            if isinstance(node, ast.Name) and node.id == target.id:
                if node not in own:
                    raise self._refusal(node)
                self.take(statement_of(self.scope, node))

    def _refusal(self, node: ast.expr | ast.stmt) -> Refusal:
        return Refusal(f"{self.scope.quote(node)} needs the value, so compiled code would have to skip it too")
