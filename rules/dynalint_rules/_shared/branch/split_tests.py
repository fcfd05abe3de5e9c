"""Split an `if` on a Python value and a tensor into a separate `if` for each.

    if flag and t:          if flag:                     if flag or t:          if flag:
        y = a                   if t:                        y = a                  y = a
    else:                           y = a                else:                  elif t:
        y = b                   else:                        y = b                  y = a
                                    y = b                                       else:
                            else:                                                   y = b
                                y = b

    if t:                   if flag:
        if flag:                if t:
            y = a                   y = a
        else:               else:
            y = b               if t:
                                    y = b

The duplicated code is short, and values that the flag disables are still not computed. The result is equivalent, and
the `if` on the tensor is rewritten in the same step.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial, reduce

from dynalint.rulekit import Rewrite, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.raising import is_plain, never_raises
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.blocks import is_elif, statements_after
from dynalint_rules._shared.branch.truth import is_tensor_test, truth_of
from dynalint_rules._shared.text import end_of_claim

_TITLE = "Test the Python value in a separate `if`, and compute both branches of the tensor test"
_FIRST = "Test the Python value first"
_LEFT = ("DYN101", "DYN106", "DYN107", "DYN202")
_MOST_REPEATED = 4


def rewrite_divided(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of an `if` or `elif` that tests a Python value and a tensor, or None for any other statement.

    The Python values are tested first. If they did not come first before, neither part may depend on the other.
    """
    test = statement.test
    tensors = [is_tensor_test(scope, value) for value in test.values] if isinstance(test, ast.BoolOp) else []
    if not isinstance(test, ast.BoolOp) or all(tensors) or not any(tensors):
        return None
    if isinstance(statement.body[-1], ast.Continue):
        return None  # the test of the tensor would be left
    start, end = tensors.index(True), len(tensors) - tensors[::-1].index(False)
    late = [value for value, is_tensor in zip(test.values[:end], tensors, strict=False) if is_tensor]
    passed = [value for value, is_tensor in zip(test.values[start:], tensors[start:], strict=True) if not is_tensor]
    if not all(is_pure(scope, value) for value in late) or not all(map(is_plain, passed)):
        return None
    tail = _tail(scope, statement)
    either = isinstance(test.op, ast.Or)
    repeated = statement.body if either else [*statement.orelse, *(tail or ())]
    if tail is None or _lines(repeated) > _MOST_REPEATED or (either and tail):
        return None
    if either and not all(_is_plain_call(scope, one) for line in repeated for one in walk(line)):
        return None  # the code of a layer or a function of the project would be there twice
    tree = rw.Tree.around(scope.file, statement)
    join = partial(rw.operation, sign="or" if either else "and")
    python, tensor = (
        reduce(lambda left, right: join(left, right=right), [
            tree.expression(one) for one, is_tensor in zip(test.values, tensors, strict=True) if is_tensor is wanted
        ])
        for wanted in (False, True)
    )  # fmt: skip
    old = tree.statement(statement)
    inner = rw.asking(old, tensor)
    new = rw.asking(old, python)
    if either:
        new = new.with_changes(orelse=inner)
    else:
        body = rw.block([inner, *(tree.line(one) for one in tail)])
        if hasattr(new.body, "header"):  # the comment after the test stays with the first test
            inner_body = new.body.with_changes(header=body.header)
            body = body.with_changes(header=new.body.header, body=[inner.with_changes(body=inner_body), *body.body[1:]])
        new = new.with_changes(body=body)
    edits = rw.replacements(tree, [rw.Substitution((old,), (new,))])
    conditions = tuple(
        f"{scope.quote(value)} does not raise an exception" for value in late if not _is_certain(scope, value)
    )
    return Rewrite(_TITLE, "conditional" if conditions else "safe", edits, conditions, leaves=_LEFT)


def rewrite_nested(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of `if tensor: if flag: ...` that tests the flag first, or None for any other statement."""
    inner = statement.body[0]
    if statement.orelse or len(statement.body) > 1 or not isinstance(inner, ast.If) or is_elif(scope, statement):
        return None
    if any(is_elif(scope, one) for one in inner.orelse) or is_tensor_test(scope, inner.test):
        return None
    if not is_pure(scope, statement.test) or not is_pure(scope, inner.test):
        return None
    tree = rw.Tree.around(scope.file, statement)
    asked = [
        rw.branch(tree.expression(statement.test), [tree.line(one) for one in side])
        for side in (inner.body, inner.orelse)
        if side
    ]
    new = rw.branch(tree.expression(inner.test), asked[:1], asked[1:])
    edits = rw.replacements(tree, [rw.Substitution((tree.statement(statement),), (new,))])
    edits = (*edits, end_of_claim(scope.file, statement))
    known = never_raises(scope, inner.test)
    conditions = () if known else (f"{scope.quote(inner.test)} does not raise an exception",)
    return Rewrite(_FIRST, "safe" if known else "conditional", edits, conditions, leaves=(*_LEFT, "DYN105", "DYN302"))


def _is_plain_call(scope: Scope, node: ast.AST) -> bool:
    name = callee(scope, node) if isinstance(node, ast.Call) else "torch."
    return name.startswith(("torch.", "Tensor.", "builtins.")) and not name.endswith(".forward")


def _is_certain(scope: Scope, value: ast.expr) -> bool:
    """Return whether converting a value to bool never raises."""
    return never_raises(scope, value) and truth_of(scope, value).scalar is True


def _tail(scope: Scope, branch: ast.If) -> Sequence[ast.stmt] | None:
    """Return the statements up to the end of the function if the branch may return before them.

    The result is None if they lead to other code.
    """
    if is_elif(scope, branch) or not any(isinstance(node, ast.Return) for node in walk(branch)):
        return ()
    after = statements_after(scope, branch)
    return None if after and not isinstance(after[-1], ast.Return) else after


def _lines(statements: Sequence[ast.stmt]) -> int:
    """Return the number of lines that consecutive statements span."""
    return (statements[-1].end_lineno or 0) - statements[0].lineno + 1 if statements else 0
