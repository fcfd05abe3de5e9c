"""Move the output and the checks of a branch out of it, so that what is left can be rewritten.

if t.any():                             if self.strict and t.any():
    if self.strict:                         raise ValueError("bad values")
        raise ValueError("bad values")  if not torch.compiler.is_compiling() and t.any():
    print("repaired")                       print("repaired")
    x = repair(x)                       if t.any():
                                            x = repair(x)

Output at the end moves after the branch, and a variable keeps the test's result. A branch that contains nothing else
disappears.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from dynalint.rulekit import Rewrite, rw, walk
from dynalint_rules._code.eager import all_of, is_eager
from dynalint_rules._code.memory import makes_tensor
from dynalint_rules._code.names import is_named
from dynalint_rules._code.raising import is_plain
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.blocks import is_elif
from dynalint_rules._shared.guard.skipping import may_go_unasked
from dynalint_rules._shared.guard.statements import (
    asks_tensor,
    eager_test,
    only_shows,
)
from dynalint_rules._shared.text import end_of_claim

if TYPE_CHECKING:
    import libcst as cst

_TITLE = "Show the output only in eager mode, and compute both branches of the test"
_CHECKED = "Check in a separate `if`, and compute both branches of the test"
_LONGEST_REPEATED_TEST = 40
# Findings about the test that is left when the output of a branch has moved.
_DECISIONS = ("DYN101", "DYN105", "DYN106", "DYN107", "DYN202", "DYN302")


def shown_apart(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite that moves output, and checks before it, out of a branch, or None if there are none."""
    body = statement.body
    first = next((run for run in _runs(body) if _may_stand_apart(scope, run, checks=True)), [])
    others = body[len(first) :]
    last = next((others[at:] for at in range(len(others)) if _may_stand_apart(scope, others[at:])), [])
    rest = body[len(first) : len(body) - len(last)]
    other = statement.orelse if not rest and not any(is_elif(scope, one) for one in statement.orelse) else []
    if not (first or last) or not (rest or other):
        return None
    if is_elif(scope, statement) or not may_go_unasked(scope, statement.test):
        return None
    guarded = any(_is_guarded(scope, one) for one in first)  # such code may change what the test depends on
    kept = guarded or not _is_repeatable(scope, statement, after=bool(last))
    if kept and not _keeps_its_value(scope, statement.test):
        return None
    tree = rw.Tree.around(scope.file, statement)
    old, test = tree.statement(statement), tree.expression(statement.test)
    name = scope.fresh_name("condition")
    asked = rw.name(name) if kept else test
    if other:
        left = rw.branch(rw.negation(asked), [tree.line(one) for one in other])
    else:
        left = rw.asking(old, asked).with_changes(body=rw.block([tree.line(one) for one in rest]))
    new: list[cst.CSTNode] = [*_apart(tree, scope, asked, first), left, *_apart(tree, scope, asked, last)]
    if kept:
        new = [*rw.statements([f"{name} = {scope.text(statement.test)}"]), *new]
    edits = rw.replacements(tree, [rw.Substitution((old,), tuple(new))])
    edits = (*edits, end_of_claim(scope.file, statement)) if last else edits
    title = _CHECKED if all(_only_checks(scope, one) for one in (*first, *last)) else _TITLE
    return Rewrite(title, "safe", edits, (), scope.imports, _DECISIONS)


def _runs(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Yield the statements that a body starts with, the longest run first."""
    yield from (body[:count] for count in range(len(body), 0, -1))


def _may_stand_apart(scope: Scope, run: Sequence[ast.stmt], *, checks: bool = False) -> bool:
    """Return whether compiled code skips statements, or can skip them because they only show values, or check."""
    left = [one for one in run if not (_is_guarded(scope, one) or (checks and _only_checks(scope, one)))]
    return not left or only_shows(scope, left)


def _is_guarded(scope: Scope, statement: ast.stmt) -> bool:
    """Return whether a statement is an `if not torch.compiler.is_compiling():`, possibly with other tests."""
    if not isinstance(statement, ast.If) or statement.orelse:
        return False
    tests = all_of(statement.test)
    return any(map(is_eager, tests)) and all(is_eager(one) or may_go_unasked(scope, one) for one in tests)


def _only_checks(scope: Scope, statement: ast.stmt) -> bool:
    """Return whether a statement is an `if` on a Python value that does nothing but raise."""
    if not isinstance(statement, ast.If) or statement.orelse or len(statement.body) > 1:
        return False
    checked = is_plain(statement.test) and not asks_tensor(scope, statement.test)
    return checked and isinstance(statement.body[0], ast.Raise)


def _is_repeatable(scope: Scope, statement: ast.If, *, after: bool) -> bool:
    """Return whether a test is short enough to repeat, and if needed, has the same value after the branch."""
    test = statement.test
    if isinstance(test, ast.Name):
        return not any(is_named(node, test.id) for one in (*statement.body, *statement.orelse) for node in walk(one))
    written = scope.file.segment(test)
    return not after and "\n" not in written and len(written) <= _LONGEST_REPEATED_TEST


def _keeps_its_value(scope: Scope, test: ast.expr) -> bool:
    """Return whether a name for the value of a test can take its place."""
    return not isinstance(test, ast.BoolOp) and (scope.tensor(test) is None or makes_tensor(scope, test))


def _apart(tree: rw.Tree, scope: Scope, test: cst.BaseExpression, moved: Sequence[ast.stmt]) -> list[cst.If]:
    """Return the statements that stand outside of the branch with a test of their own."""
    new: list[cst.If] = []
    shown: list[ast.stmt] = []
    for one in [*moved, None]:
        checks = isinstance(one, ast.If) and isinstance(one.body[0], ast.Raise)
        if shown and (one is None or checks):
            new.append(_shown(tree, scope, test, shown))
            shown = []
        if isinstance(one, ast.If) and checks:
            both = rw.operation(tree.expression(one.test), "and", test)
            new.append(rw.branch(both, [tree.line(inner) for inner in one.body]))
        elif one is not None:
            shown.append(one)
    return new


def _shown(tree: rw.Tree, scope: Scope, test: cst.BaseExpression, shown: list[ast.stmt]) -> cst.If:
    """Return an `if` that shows values in eager code only. It takes over the test of a single `if`."""
    before: list[cst.BaseExpression] = []
    after: list[cst.BaseExpression] = []
    if len(shown) == 1 and isinstance(shown[0], ast.If):
        for one in all_of(shown[0].test):
            if not is_eager(one):
                (before if is_plain(one) and not asks_tensor(scope, one) else after).append(tree.expression(one))
        shown = shown[0].body
    tests = [*before, eager_test(scope), test, *after]
    whole = reduce(lambda left, right: rw.operation(left, "and", right), tests)
    return rw.branch(whole, [tree.line(one) for one in shown])
