"""Rewrite assertions, and checks that raise, so that Dynamo keeps them in the graph."""

from __future__ import annotations

import ast
import builtins
import functools
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from string import Formatter
from typing import Any

from dynalint.rulekit import Refusal, Rewrite, Safety, fails, k, rw, walk, walk_function
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.names import is_named
from dynalint_rules._code.only_raises import off_switches
from dynalint_rules._code.passed_values import parameter_of
from dynalint_rules._code.scope import Scope, shared
from dynalint_rules._shared.branch.blocks import is_elif, parts_of_test
from dynalint_rules._shared.branch.branch_values import NO_RAISE
from dynalint_rules._shared.branch.truth import (
    Truth,
    is_plain_tensor,
    is_tensor_test,
    truth_of,
)
from dynalint_rules._shared.guard.statements import compiling
from dynalint_rules._shared.text import held_together

_SENTENCES = re.compile(r"(.*[.!?])(?:\s|$)", re.DOTALL)
_VALUES = r"\.\.\.(?:(?:,| and| vs\.?) \.\.\.)*(?: instead)?"
_GIVEN = re.compile(rf"[\s,;:.(]+(?:but\s+)?(?:got|found|received|given)\b[\s:=]*{_VALUES}\)?\.?$", re.IGNORECASE)
_CONVERSION = re.compile(r"%(?:\(\w+\))?[#0 +-]*[\d.*]*[a-zA-Z]")
_LONGEST_TEST = 60  # characters that are shown instead of a missing message
CHECKED = "Check with `torch._assert_async` in compiled code"


def is_constant_message(node: ast.expr | None) -> bool:
    """Return whether there is no message, or one that Dynamo turns into a constant string."""
    if node is None:
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return is_constant_message(node.left) and is_constant_message(node.right)
    if isinstance(node, ast.JoinedStr):
        return all(isinstance(part, ast.Constant) for part in node.values)
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def rewrite_guard(scope: Scope, statement: ast.If) -> Rewrite:
    """Return the rewrite of `if test: raise Error("message")` that uses `torch._assert_async` in compiled code.

    Eager code still raises the original exception.

    Raises:
        Refusal: If the statement does more than raise, or compiled code may catch the exception.
    """
    checks = _checks_of(scope, statement)
    if not checks:
        raise Refusal(
            "the branch does more than raise an exception; check in a separate statement, and select the rest "
            "with `torch.where`"
        )
    refuse_caught(scope, checks[0])
    for node in (node for one in checks for node in walk(one.test)):
        kind = scope.kind(node) if isinstance(node, ast.expr) else k.UNKNOWN
        if isinstance(node, ast.expr) and isinstance(kind, k.Tensor) and kind.array:
            raise Refusal(f"{scope.quote(node)} is a NumPy array; compute the test with Python numbers or with tensors")
        if isinstance(node, ast.expr) and isinstance(kind, k.Value) and kind.source == "data" and kind.type != "bool":
            raise Refusal(f"{scope.quote(node)} reads a number from a tensor; rewrite that read first")
    return shared((rewrite_guard, scope.function, checks[0]), lambda: _checked(scope, checks))


def _checks_of(scope: Scope, statement: ast.If) -> list[ast.If]:
    """Return the `if` and `elif` branches of a statement's chain, or an empty list if one does more than raise."""
    while is_elif(scope, statement):
        parent = scope.parents[statement]
        assert isinstance(parent, ast.If), "an `elif` belongs to an `if`"
        statement = parent
    checks = [statement]
    while len(checks[-1].orelse) == 1 and isinstance(below := checks[-1].orelse[0], ast.If) and is_elif(scope, below):
        checks.append(below)
    raising = (fails(one.body[-1]) and all(map(_is_plain, one.body[:-1])) for one in checks)
    return checks if not checks[-1].orelse and all(raising) else []


def _checked(scope: Scope, checks: list[ast.If]) -> Rewrite:
    """Return the rewrite of a chain in which every branch raises, so that its tests are independent of each other."""
    tree = rw.Tree.around(scope.file, checks[0])
    old = tree.statement(checks[0])
    rest = _left_to_tensors(scope, checks[0].test) if len(checks) == 1 else None
    if rest is None:
        lines, truths = [], []
        for one in checks:
            python, test = parts_of_test(scope, one.test)
            truths.append(truth_of(scope, test).negated)
            check = _asserted(scope, truths[-1], one.body[-1])
            lines += check if python is None else [f"if {python}:", *(f"    {line}" for line in check)]
        new = [rw.branch(compiling(scope), rw.statements(lines), otherwise=old)]
    else:
        # The Python part is still tested and raises as before.
        truths = [rest.good]
        asked = rw.branch(compiling(scope), rw.statements(_asserted(scope, rest.good, checks[0].body[-1])))
        new = [rw.asking(old, rest.left_out(scope, tree)), asked]
    edits = rw.replacements(tree, [rw.Substitution((old,), tuple(new))])
    conditions = tuple(dict.fromkeys(condition for truth in truths for condition in truth.conditions))
    return Rewrite(CHECKED, "conditional" if conditions else "safe", edits, conditions, scope.imports)


@dataclass(frozen=True)
class _Rest:
    """The tensor operands at the end of the test for a `raise`, as in `python or tensor` or `not (python and tensor)`.

    `good` is their truth value if the check passes.
    """

    test: ast.expr
    operation: ast.BoolOp
    count: int
    good: Truth

    def left_out(self, scope: Scope, tree: rw.Tree) -> Any:
        """Return the test in a form that ignores these operands in compiled code."""
        nodes = [tree.expression(one) for one in self.operation.values]
        word, guard = ("and", rw.negation(compiling(scope)))
        if isinstance(self.operation.op, ast.And):
            word, guard = "or", compiling(scope)
        own = "or" if word == "and" else "and"
        held = functools.reduce(lambda left, right: rw.operation(left, own, right), nodes[-self.count :])
        nodes = [*nodes[: -self.count], rw.operation(guard, word, held)]
        whole = functools.reduce(lambda left, right: rw.operation(left, own, right), nodes)
        return whole if self.operation is self.test else rw.negation(whole)


def _left_to_tensors(scope: Scope, test: ast.expr) -> _Rest | None:
    """Return the tensor part of a test that also has a Python part, or None for any other test.

    Raises:
        Refusal: If an operand in the tensor part is not a tensor.
    """
    negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    asked = test.operand if isinstance(test, ast.UnaryOp) and negated else test
    if not isinstance(asked, ast.BoolOp) or isinstance(asked.op, ast.And) is not negated:
        return None
    first = next((i for i, one in enumerate(asked.values) if is_tensor_test(scope, one)), 0)
    if first == 0:
        return None
    rest = asked.values[first:]
    truth = truth_of(scope, rest[0] if len(rest) == 1 else ast.copy_location(ast.BoolOp(asked.op, rest), rest[0]))
    return _Rest(test, asked, len(rest), truth if negated else truth.negated)


def _is_plain(statement: ast.stmt) -> bool:
    """Return whether control always continues with the next statement."""
    return isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Pass)


def _asserted(scope: Scope, truth: Truth, raising: ast.stmt) -> list[str]:
    """Return the lines of a call that checks on the device. A message on several lines is indented like an argument."""
    message = _shown(scope, raising)
    lines = [line.strip() for line in message.splitlines()]
    if len(lines) < 2 or '"""' in message or "'''" in message:
        return [f"{scope.torch}._assert_async({truth.text}, {message})"]
    arguments = [f"{truth.text},", *lines[:-1], f"{lines[-1]},"]
    return [f"{scope.torch}._assert_async(", *(f"    {line}" for line in arguments), ")"]


def _shown(scope: Scope, raising: ast.stmt) -> str:
    """Return the code of a constant message that is as close as possible to the exception's message."""
    given = raising.exc if isinstance(raising, ast.Raise) else None
    message = given.args[0] if isinstance(given, ast.Call) and given.args else None
    if isinstance(raising, ast.Expr) and isinstance(raising.value, ast.Call):
        message = next(iter(raising.value.args[1:]), None)
    if message is not None and (is_constant_message(message)):
        return scope.text(message)
    plain = without_values(message)
    if plain is None:
        name = given.func if isinstance(given, ast.Call) else given
        plain = "the check fails" if name is None else scope.text(name).rpartition(".")[2]
        check = scope.parents.get(raising)
        asked = ast.unparse(check.test) if isinstance(check, ast.If) and raising in check.body else ""
        # The name of a project's own exception says enough.
        short = 0 < len(asked) <= _LONGEST_TEST and hasattr(builtins, plain)
        plain = json.dumps(f"{plain}: {asked}" if short else plain)
    return plain


def refuse_caught(scope: Scope, statement: ast.stmt) -> None:
    """Ensure that no handler in compiled code expects the exception, because its type may change.

    Raises:
        Refusal: If a `try` with handlers surrounds the check, or a call in the chain that leads to it.
    """
    for caller in scope.function.leading_here[1:]:
        if any(_handles_calls(node) for node in walk_function(caller.node)):
            raise Refusal(
                f"`{caller.qualname}`, which calls this, may catch the exception, but the exception's type "
                "would change; select with `torch.where` instead of raising an exception"
            )
    node: ast.AST = statement
    while node is not scope.function.node:
        parent = scope.parents.get(node)
        if parent is None:
            return
        if isinstance(parent, ast.Try) and parent.handlers and node in parent.body:
            raise Refusal(
                "an `except` around the check may catch the exception, but its type would change, and it might be "
                "raised after the handler has finished; select with `torch.where` instead of raising an exception"
            )
        node = parent


def _handles_calls(node: ast.AST) -> bool:
    """Return whether a node is a `try` whose handlers apply to calls in it."""
    return (
        isinstance(node, ast.Try)
        and bool(node.handlers)
        and any(isinstance(part, ast.Call) for statement in node.body for part in ast.walk(statement))
    )


def rewrite_assert(scope: Scope, statement: ast.Assert) -> Rewrite:
    """Return the rewrite of an `assert` as assertions with one tensor each and a constant message.

    If the message is computed, it stays in eager mode.

    Raises:
        Refusal: If the test cannot be split in this way, or compiled code may catch the exception.
    """
    refuse_caught(scope, statement)
    conditions: list[str] = []
    tests = _tests(scope, statement.test, conditions)
    title = "Assert one tensor at a time" if len(tests) > 1 else "Assert in a form that Dynamo keeps in the graph"
    return _asserting(scope, title, statement, tests, statement.msg, conditions)


def rewrite_asserting(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of `if test: assert other` as `assert ~test | other`, or None for any other branch.

    Raises:
        Refusal: If a test is not a tensor without dimensions, or compiled code may catch the exception.
    """
    asserted = statement.body[0]
    if len(statement.body) > 1 or statement.orelse or is_elif(scope, statement):
        return None
    if not isinstance(asserted, ast.Assert) or not is_tensor_test(scope, asserted.test):
        return None
    refuse_caught(scope, statement)
    unasked, good = truth_of(scope, statement.test).negated, truth_of(scope, asserted.test)
    if not (unasked.scalar and good.scalar):
        return None
    text = unasked.text if unasked.text == good.text else f"{unasked.operand} | {good.operand}"
    conditions = [*unasked.conditions, *good.conditions, NO_RAISE]
    title = "Assert on every call, in a form that Dynamo keeps in the graph"
    return _asserting(scope, title, statement, [(text, True)], asserted.msg, conditions)


def _asserting(
    scope: Scope,
    title: str,
    statement: ast.stmt,
    tests: list[tuple[str, bool]],
    message: ast.expr | None,
    conditions: list[str],
) -> Rewrite:
    """Return the rewrite of a statement that asserts `tests`, each of which is a tensor or not."""
    safety: Safety = "conditional" if conditions else "safe"
    unique = tuple(dict.fromkeys(conditions))
    if is_constant_message(message):
        shown = f", {held_together(scope.text(message))}" if message is not None else ""
        asserted = [f"assert {held_together(test)}{shown}" for test, _ in tests]
        return Rewrite(title, safety, rw.written(scope.file, (statement, asserted)), unique, scope.imports)
    plain = without_values(message) or '"the assertion fails"'
    checks = [
        f"{scope.torch}._assert_async({test}, {plain})" if is_tensor else f"assert {held_together(test)}, {plain}"
        for test, is_tensor in tests
    ]
    tree = rw.Tree.around(scope.file, statement)
    new = rw.branch(compiling(scope), rw.statements(checks), [tree.line(statement)])
    edits = rw.replacements(tree, [rw.Substitution((tree.statement(statement),), (new,))])
    return Rewrite(CHECKED, safety, edits, unique, scope.imports)


def _tests(scope: Scope, test: ast.expr, changes: list[str]) -> list[tuple[str, bool]]:
    """Return the tests to assert one after another, instead of asserting all of them with `and`.

    Each comes with whether it is a tensor.
    """
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [found for value in test.values for found in _tests(scope, value, changes)]
    if is_plain_tensor(scope, test) or not is_tensor_test(scope, test):
        return [(scope.text(test), is_plain_tensor(scope, test))]
    truth = truth_of(scope, test)
    changes += truth.conditions
    return [(truth.text, True)]


def without_values(node: ast.expr | None) -> str | None:
    """Return the code of a text with values as a plain string, or None for any other expression.

    The string consists of the sentences before the first value. If there are none, it is the text with an ellipsis for
    each value, without the clause that says what was given.
    """
    parts = _parts_of_text(node) if node is not None else None
    if parts is None or not any(parts):
        return None
    sentences = _SENTENCES.match(parts[0] or "") if None in parts else None
    text = sentences[1] if sentences else "".join("..." if part is None else part for part in parts)
    text = _GIVEN.sub("", text) or text
    return json.dumps(text.removesuffix(".") if text.endswith("....") else text, ensure_ascii=False)


def _parts_of_text(node: ast.expr) -> list[str | None] | None:
    """Return the constant parts of a text, with None for each value. The result is None if it may not be a text."""
    match node:
        case ast.Constant(str(text)):
            return [text]
        case ast.JoinedStr(values):
            return [str(part.value) if isinstance(part, ast.Constant) else None for part in values]
        case ast.BinOp(ast.Constant(str(text)), ast.Mod()):
            parts = _CONVERSION.split(text.replace("%%", "\0"))
            constant, *others = (part.replace("\0", "%") for part in parts)
            return [constant, *(part for other in others for part in (None, other))]
        case ast.Call(ast.Attribute(ast.Constant(str(text)), "format")):
            with suppress(ValueError):  # the text is not a valid format
                fields = Formatter().parse(text)
                return [
                    part
                    for constant, *field in fields
                    for part in (constant, *([None] if field[0] is not None else []))
                ]
        case ast.BinOp(left, ast.Add(), right):
            sides = [_parts_of_text(left), _parts_of_text(right)]
            return [part for side in sides for part in (side or [None])] if any(sides) else None
        case ast.Call(ast.Name(), [only], []):  # an exception
            return _parts_of_text(only)
    return None


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
