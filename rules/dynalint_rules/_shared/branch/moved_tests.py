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
from collections.abc import Sequence
from dataclasses import replace

from dynalint.rulekit import FunctionInfo, Rewrite, Safety, k, rw, walk, walk_function
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.passed_values import results_on_self
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.uses import Attribute, self_name
from dynalint_rules._shared.branch.blocks import FIRST_STEP_LEAVES, is_elif, split_test

_TITLE = "Test in the method, and write the result of `torch.where` on every call"
_MODES = frozenset({"torch.no_grad", "torch.inference_mode"})


def rewrite_moved_test(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of an `if` that only calls a method, or None if the test cannot move into the method.

    It can if the method has no other caller and returns nothing, and the test only depends on the module. So can the
    statements after the call. If a branch starts with `with torch.no_grad():`, the test and the branch move into that.
    """
    called, *rest = statement.body
    if statement.orelse or is_elif(scope, statement):
        return None
    if not all(_depends_on_module(scope, one) for one in rest):
        return None
    if isinstance(called, ast.With):
        return _into_with(scope, statement, called, rest)
    python, test = split_test(scope, statement)
    method = _method(scope, called.value) if isinstance(called, ast.Expr) else None
    if method is None or not _depends_on_module(scope, test) or not is_pure(scope, test):
        return None
    assert isinstance(called, ast.Expr)
    assert isinstance(called.value, ast.Call)
    if not all(is_pure(scope, one) for one in (*called.value.args, *(each.value for each in called.value.keywords))):
        return None
    assert isinstance(method.node, ast.FunctionDef)
    body = method.node.body[1:] if ast.get_docstring(method.node) is not None else method.node.body
    caller, callee = rw.Tree.around(scope.file, statement), rw.Tree.around(scope.file, body[0])
    inside = [*(callee.line(one) for one in body), *(caller.line(one) for one in rest)]
    asked = rw.branch(caller.expression(test), inside)
    moved = rw.replacements(callee, [rw.Substitution(tuple(callee.statement(one) for one in body), (asked,))])
    left = [called] if python is None else [f"if {python}:", f"    {scope.text(called)}"]
    edits = (*rw.written(scope.file, (statement, left)), *moved)
    condition = f"no code outside this project calls `{method.name}` or replaces it in a subclass"
    return Rewrite(_TITLE, "conditional", edits, (condition,), leaves=FIRST_STEP_LEAVES)


def _into_with(scope: Scope, statement: ast.If, held: ast.With, rest: Sequence[ast.stmt]) -> Rewrite | None:
    """Return the rewrite of `if test: with torch.no_grad(): ...` that tests inside the `with`, or None."""
    context = held.items[0].context_expr
    kind = scope.kind(context.func) if isinstance(context, ast.Call) and not context.args else None
    if len(held.items) > 1 or not isinstance(kind, k.External) or kind.name not in _MODES:
        return None
    tree = rw.Tree.around(scope.file, statement)
    asked = rw.branch(tree.expression(statement.test), [tree.line(one) for one in (*held.body, *rest)])
    new = tree.statement(held).with_changes(body=rw.block([asked]))
    edits = rw.replacements(tree, [rw.Substitution((tree.statement(statement),), (new,))])
    conditions = ("the statements after the `with` need no gradients",) if rest else ()
    safety: Safety = "conditional" if rest else "safe"
    return Rewrite("Test without gradients", safety, edits, conditions, leaves=FIRST_STEP_LEAVES)


def _method(scope: Scope, value: ast.expr) -> FunctionInfo | None:
    """Return the plain method of `self` that an expression calls, if nothing else calls it and it returns nothing."""
    kind = scope.kind(value.func) if isinstance(value, ast.Call) else None
    method = kind.function if isinstance(kind, k.Function) else None
    if method is None or method.owner is None or not isinstance(method.node, ast.FunctionDef):
        return None
    there = replace(scope, function=method, parents=scope.project.parents(method), renamed={}, composed=set(), made={})
    calls = results_on_self(there)
    returns = any(isinstance(one, ast.Return | ast.Yield | ast.YieldFrom) for one in walk_function(method.node))
    same_self = self_name(method) == self_name(scope.function)
    if calls is None or [call for _, call in calls] != [value] or returns or not same_self:
        return None
    if scope.project.mentions(method.name):  # as in `getattr(self, "update")`
        return None
    family = Attribute(method.owner, method.name, scope.project).family
    return method if [one for one in family if method.name in one.methods] == [method.owner] else None


def _depends_on_module(scope: Scope, node: ast.expr | ast.stmt) -> bool:
    """Return whether code reads nothing but attributes of `self`, so that it means the same in another method."""
    leaves = any(isinstance(one, ast.Return | ast.Break | ast.Continue) for one in walk(node))
    return not leaves and {one.id for one in walk(node) if isinstance(one, ast.Name)} == {self_name(scope.function)}
