"""Dropping a test whose answer is known, with the side that is never taken.

if a.sum() > 0:                 if a.sum() > 0:
    if a.sum() > 0:                 b = -a
        b = -a                  elif a.max() > 1:
    else:                           b = a * 2
        b = torch.rand(3)
elif torch.relu(a).min() < 0:
    b = a + 1
elif a.max() > 1:
    b = a * 2
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from dynalint.analysis.steps import walk
from dynalint.rules import Replacement, Rewrite, Settled
from dynalint_rules._shared.blocks import is_elif, statements_after
from dynalint_rules._shared.choice import without_parentheses
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.guard import taken_out
from dynalint_rules._shared.names import statement_of
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.settled import Answer, answer_of, settled_tests
from dynalint_rules._shared.text import comments, held_together, indentation, inner_indentation, moved

_TITLE = "Drop the test, which always has the same answer"
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
# What makes a function another one by standing in it, or binds names in other ways than as `ast.Name`.
_NOT_DROPPED = (
    ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom, ast.FunctionDef,
    ast.AsyncFunctionDef, ast.ClassDef, ast.AsyncFor, ast.AsyncWith, ast.ExceptHandler, ast.match_case,
)  # fmt: skip
_NOT_LIFTED = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await, ast.Lambda, ast.IfExp)


def rewrite_decided(scope: Scope, node: ast.If | ast.IfExp) -> Rewrite | None:
    """Return the rewrite that leaves the side which is always taken; None where that is not known, or not simple."""
    answer = answer_of(scope, node)
    if answer is None or not is_pure(scope, node.test):
        return None
    edits = _of_expression(scope, node, answer) if isinstance(node, ast.IfExp) else _of_statement(scope, node, answer)
    if not edits or _touches_comments(scope, node, edits):
        return None
    if answer.repeated:
        return Rewrite(_TITLE, "safe", tuple(edits), settled=settled_tests(scope))
    floats = (f"{tensor} is a floating-point tensor" for tensor in dict.fromkeys(answer.floats))
    conditions = (f"{scope.quote(node.test)} raises nothing", *floats)
    own = Settled(scope.file, *scope.file.span(node.test), answer.truth)
    settled = tuple(dict.fromkeys([*settled_tests(scope), own]))
    return Rewrite(_TITLE, "conditional", tuple(edits), conditions, settled=settled)


def _touches_comments(scope: Scope, node: ast.If | ast.IfExp, edits: Sequence[Replacement]) -> bool:
    """Whether a comment stands in what goes, or behind it on its last line."""
    file, statement = scope.file, statement_of(scope, node)
    start, end = file.span(statement)
    last = file.line_starts[file.position(end)[0] - 1] + len(file.line(file.position(end)[0]))
    found = comments(file, start, last)
    ends = [last if edit.end >= end and node is statement else edit.end for edit in edits]
    return found is None or any(
        edit.start <= at < stop for at, _ in found for edit, stop in zip(edits, ends, strict=True)
    )


def _of_expression(scope: Scope, node: ast.IfExp, answer: Answer) -> list[Replacement]:
    kept, dropped = (node.body, node.orelse) if answer.truth else (node.orelse, node.body)
    if isinstance(kept, _NOT_LIFTED) or not _may_go(scope, [dropped]):
        return []
    span = without_parentheses(scope, node, *scope.file.span(node))
    bare = span == scope.file.span(node) or isinstance(scope.parents[node], ast.Assign | ast.Return)
    text = held_together(scope.text(kept))
    return [Replacement(scope.file, *span, text if bare else f"({text})")]


def _of_statement(scope: Scope, node: ast.If, answer: Answer) -> list[Replacement]:
    kept, dropped = (node.body, node.orelse) if answer.truth else (node.orelse, node.body)
    if not _may_go(scope, dropped):
        return []
    if is_elif(scope, node):
        return list(_of_elif(scope, node, answer))
    chained = not answer.truth and len(kept) == 1 and isinstance(kept[0], ast.If) and is_elif(scope, kept[0])
    if chained:
        (start, _), (end, _) = scope.file.span(node), scope.file.span(kept[0])
        return [Replacement(scope.file, start, end + len("el"), "")]
    if not kept:
        return _taken_out(scope, node)
    if isinstance(kept[-1], _LEAVING) and statements_after(scope, node):
        return []
    return [Replacement(scope.file, *scope.file.span(node), _moved(scope, node, kept))]


def _of_elif(scope: Scope, node: ast.If, answer: Answer) -> Iterator[Replacement]:
    """Yield the edits that make an `elif` the `else`, or take it out of its chain."""
    file = scope.file
    (start, end), (_, test_end), (body, _) = (file.span(part) for part in (node, node.test, node.body[0]))
    last = file.span(node.body[-1])[1]
    if answer.truth:
        colon = re.match(r"[\s)\\]*:", file.text[test_end:body])
        if colon is not None:
            yield Replacement(file, start, test_end + colon.end(), "else:")
            yield from [Replacement(file, last, end, "")] if node.orelse else []
        return
    if not node.orelse:
        yield Replacement(file, len(file.text[:start].rstrip()), end, "")
        return
    following = file.span(node.orelse[0])[0]
    is_chained = isinstance(node.orelse[0], ast.If) and is_elif(scope, node.orelse[0])
    keyword = None if is_chained else re.match(r"\s*else\b", file.text[last:following])
    if is_chained or keyword is not None:
        yield Replacement(file, start, following if keyword is None else last + keyword.end() - len("else"), "")


def _taken_out(scope: Scope, node: ast.If) -> list[Replacement]:
    try:
        return list(taken_out(scope, node, _TITLE, "safe").replacements)
    except Refusal:
        return []


def _moved(scope: Scope, node: ast.If, kept: Sequence[ast.stmt]) -> str:
    """Return the text of the statements of a side in the place of the `if`."""
    file, own, inner = scope.file, indentation(scope.file, node.lineno), inner_indentation(scope.file, node)
    return f"{file.newline}{own}".join(moved(scope.text(one), inner, own) for one in kept)


def _may_go(scope: Scope, dropped: Sequence[ast.AST]) -> bool:
    """Whether a function is the same without a side that never runs: each name in it stays one of its own."""
    nodes = [inner for one in dropped for inner in walk(one)]
    if any(isinstance(inner, _NOT_DROPPED) for inner in nodes):
        return False
    inside = set(nodes)
    every = [one for one in walk(scope.function.node) if isinstance(one, ast.Name) and one not in inside]
    bound = {one.id for one in nodes if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)}
    arguments = {one.arg for one in walk(scope.function.node.args) if isinstance(one, ast.arg)}
    own = bound - arguments - {one.id for one in every if isinstance(one.ctx, ast.Store)}
    return not any(one.id in own for one in every)
