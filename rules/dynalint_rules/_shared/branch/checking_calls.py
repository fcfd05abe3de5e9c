"""Rewrite calls to functions that raise if their argument is false, such as `check(test, "message")`."""

from __future__ import annotations

import ast

from dynalint.rulekit import Rewrite, k, rw
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.names import is_named
from dynalint_rules._code.only_raises import off_switches
from dynalint_rules._code.passed_values import parameter_of
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.checks import CHECKED, is_constant_message, refuse_caught, without_values
from dynalint_rules._shared.branch.truth import truth_of
from dynalint_rules._shared.guard.statements import compiling


def rewrite_checking_call(scope: Scope, node: ast.expr) -> Rewrite | None:
    """Return the rewrite of `check(test, "message")` that uses `torch._assert_async` in compiled code.

    `node` is the test or a part of it. The result is None unless the callee does nothing but raise if the test is
    false.
    """
    test = _whole_test(scope, node)
    call = scope.parents[test]
    call = scope.parents[call] if isinstance(call, ast.keyword) else call
    statement = scope.parents.get(call)  # a lambda is not inside a statement
    checker = scope.kind(call.func) if isinstance(call, ast.Call) else k.UNKNOWN
    if not isinstance(call, ast.Call) or not isinstance(statement, ast.Expr) or not isinstance(checker, k.Function):
        return None
    name = parameter_of(checker, call, test)
    switches = None if name is None else off_switches(checker, call, name)
    if switches is None:
        return None
    refuse_caught(scope, statement)
    truth = truth_of(scope, test)
    given = [one for one in (*call.args, *(keyword.value for keyword in call.keywords)) if one is not test]
    if not all(isinstance(one, ast.Lambda) or is_pure(scope, one) for one in given):
        return None  # compiled code would not evaluate the other arguments
    message = next((text for one in given if (text := _check_message(scope, one)) is not None), '"the check fails"')
    tree = rw.Tree.around(scope.file, statement)
    lines = rw.statements([f"{scope.torch}._assert_async({truth.text}, {message})"])
    new = rw.branch(compiling(scope), lines, [tree.line(statement)])
    edits = rw.replacements(tree, [rw.Substitution((tree.statement(statement),), (new,))])
    conditions = (*truth.conditions, *(f"`{checker.function.name}` is not disabled by `{one}`" for one in switches))
    return Rewrite(CHECKED, "conditional" if conditions else "safe", edits, conditions, scope.imports)


def _whole_test(scope: Scope, node: ast.expr) -> ast.expr:
    """Return the test that an expression is part of, looking through operators, `bool()` and `.item()`."""
    parent = scope.parents[node]
    while (
        isinstance(parent, ast.BoolOp | ast.UnaryOp)
        or (isinstance(parent, ast.Attribute) and parent.attr == "item")
        or (isinstance(parent, ast.Call) and (node is parent.func or is_named(parent.func, "bool")))
    ):
        node, parent = parent, scope.parents[parent]
    return node


def _check_message(scope: Scope, node: ast.expr) -> str | None:
    """Return the code of the message if one of the arguments is a message that can be part of a graph."""
    kind = scope.kind(node)
    if is_constant_message(node) or (isinstance(kind, k.Value) and isinstance(kind.constant, str)):
        return scope.text(node)
    return without_values(node.body if isinstance(node, ast.Lambda) else node)
