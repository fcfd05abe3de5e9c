"""Move the test around a call into the method that it calls, where the method's writes can be selected.

def forward(self, x):                       def forward(self, x):
    if self.count < 100:                        self.update(x)
        self.update(x)                          return x - self.mean
    return x - self.mean
                                            def update(self, x):
def update(self, x):                            if self.count < 100:
    self.mean += x.mean(0)                          self.mean += x.mean(0)
    self.count += 1                                 self.count += 1
"""

from __future__ import annotations

import ast
from dataclasses import replace

from dynalint.rulekit import FunctionInfo, Rewrite, k, rw, walk, walk_function
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.passed_values import calls_on_self
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.uses import self_name
from dynalint_rules._shared.branch.blocks import is_elif, split_test

_TITLE = "Test in the method, and write the result of `torch.where` on every call"
_DECISIONS = ("DYN101", "DYN202", "DYN302")


def rewrite_moved_test(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of an `if` that only calls a method, or None if the test cannot move into the method.

    It can if the method has no other caller and returns nothing, and the test only depends on the module.
    """
    called = statement.body[0]
    if len(statement.body) > 1 or statement.orelse or is_elif(scope, statement) or not isinstance(called, ast.Expr):
        return None
    python, test = split_test(scope, statement)
    method = _method(scope, called.value)
    if method is None or not isinstance(called.value, ast.Call) or not _depends_on_module(scope, test):
        return None
    if not all(is_pure(scope, one) for one in (*called.value.args, *(each.value for each in called.value.keywords))):
        return None
    assert isinstance(method.node, ast.FunctionDef)
    body = method.node.body[1:] if ast.get_docstring(method.node) is not None else method.node.body
    caller, callee = rw.Tree.around(scope.file, statement), rw.Tree.around(scope.file, body[0])
    asked = rw.branch(caller.expression(test), [callee.line(one) for one in body])
    moved = rw.replacements(callee, [rw.Substitution(tuple(callee.statement(one) for one in body), (asked,))])
    left = [called] if python is None else [f"if {python}:", f"    {scope.text(called)}"]
    return Rewrite(_TITLE, "safe", (*rw.written(scope.file, (statement, left)), *moved), leaves=_DECISIONS)


def _method(scope: Scope, value: ast.expr) -> FunctionInfo | None:
    """Return the plain method of `self` that an expression calls, if nothing else calls it and it returns nothing."""
    kind = scope.kind(value.func) if isinstance(value, ast.Call) else None
    if (
        not isinstance(kind, k.Function)
        or kind.function.owner is None
        or not isinstance(kind.function.node, ast.FunctionDef)
    ):
        return None
    method = kind.function
    there = replace(scope, function=method, parents=scope.project.parents(method), renamed={}, composed=set(), made={})
    calls = calls_on_self(there)
    returns = any(isinstance(one, ast.Return | ast.Yield | ast.YieldFrom) for one in walk_function(method.node))
    same_self = self_name(method) == self_name(scope.function)
    if calls is None or [call for _, call in calls] != [value] or returns or not same_self:
        return None
    return method


def _depends_on_module(scope: Scope, test: ast.expr) -> bool:
    """Return whether a test reads nothing but attributes of `self`, so that it means the same in another method."""
    read = {node.id for node in walk(test) if isinstance(node, ast.Name)}
    return read == {self_name(scope.function)} and is_pure(scope, test)
