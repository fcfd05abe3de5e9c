"""Functions that do nothing except raise if an argument is false."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from dynalint.rulekit import k, walk, walk_function
from dynalint_rules._code.passed_values import parameter_of

# Nodes that the test of a switch can contain, including the only call that it can make.
_PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Call)
_SCRIPTING = "torch.jit.is_scripting"


def off_switches(checker: k.Function, call: ast.Call, name: str) -> list[str] | None:
    """Return the tests that disable a check, or None if it does more than raise when parameter `name` is false."""
    node = checker.function.node
    if not isinstance(node, ast.FunctionDef):
        return None
    given = {parameter_of(checker, call, one) for one in (*call.args, *(keyword.value for keyword in call.keywords))}
    set_to_true = {one.arg for one in _true_by_default(node.args)} - given
    stored = {one.id for one in walk_function(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    if None in given or not stored.isdisjoint({name, *set_to_true}):
        return None
    body = [one for one in node.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    if body and _says(body[-1]):
        body = body[:-1]
    tests = [one for one in body if isinstance(one, ast.If) and ast.unparse(one.test) == f"not {name}"]
    if len(tests) != 1 or tests[0].orelse or not _raises(tests[0].body, set_to_true):
        return None
    parameters = {one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
    switches: list[str] = []
    for one in body:
        if isinstance(one, ast.If) and one is not tests[0]:
            off = _switched_off_by(one, parameters)
            if off is None:
                return None
            switches.append(off)
        elif one is not tests[0] and not _only_words(one):
            return None
    return switches


def _switched_off_by(statement: ast.If, parameters: Collection[str]) -> str | None:
    """Return the tests of an `if` that only returns a constant, or None for other statements.

    The tests must not have side effects, read a parameter, or test whether the code is compiled.
    """
    parts = [one for one in walk(statement.test) if isinstance(one, ast.expr)]
    asks = any(isinstance(one, ast.Name) and one.id in parameters for one in parts)
    calls = [ast.unparse(one.func) for one in parts if isinstance(one, ast.Call)]
    plain = all(isinstance(one, _PLAIN) for one in parts) and set(calls) <= {_SCRIPTING}
    if asks or not plain or statement.orelse or len(statement.body) != 1:
        return None
    (inner,) = statement.body
    test = ast.unparse(statement.test)
    if isinstance(inner, ast.If):
        further = _switched_off_by(inner, parameters)
        return None if further is None else f"{test} and {further}"
    return test if _says(inner) else None


def _raises(statements: Sequence[ast.stmt], set_to_true: Collection[str]) -> bool:
    """Return whether statements do nothing except raise, given which parameters are true."""
    for statement in statements:
        if isinstance(statement, ast.If) and isinstance(statement.test, ast.Name) and statement.test.id in set_to_true:
            return _raises(statement.body, set_to_true)
        if not _only_assigns(statement):
            return isinstance(statement, ast.Raise)
    return False


def _only_assigns(statement: ast.stmt) -> bool:
    """Return whether a statement only assigns names that nothing reads after the `raise`."""
    if isinstance(statement, ast.If):
        return all(map(_only_assigns, [*statement.body, *statement.orelse]))
    return isinstance(statement, ast.Assign) and all(isinstance(one, ast.Name) for one in statement.targets)


def _true_by_default(arguments: ast.arguments) -> Iterator[ast.arg]:
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(reversed(positional), reversed(arguments.defaults), strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    yield from (one for one, default in pairs if isinstance(default, ast.Constant) and default.value is True)


def _says(statement: ast.stmt) -> bool:
    """Return whether a statement returns a constant. The caller does not use it."""
    return isinstance(statement, ast.Return) and isinstance(statement.value, ast.Constant | None)


def _only_words(statement: ast.stmt) -> bool:
    """Return whether a statement only assigns a string to a name."""
    if isinstance(statement, ast.Pass):
        return True
    if not isinstance(statement, ast.Assign) or not all(isinstance(one, ast.Name) for one in statement.targets):
        return False
    calls = (one.func for one in walk(statement.value) if isinstance(one, ast.Call))
    return all(isinstance(one, ast.Attribute) and one.attr == "format" for one in calls)
