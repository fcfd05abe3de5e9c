"""Counts that a branch on a tensor adds to, as in `if t > 0: n += 1`: the count becomes a tensor without dimensions."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint.analysis.index import walk_function
from dynalint.analysis.steps import walk
from dynalint.rules import Replacement
from dynalint_rules._shared.blocks import Assignment
from dynalint_rules._shared.names import loads, within
from dynalint_rules._shared.numbers import Flow, flow_from
from dynalint_rules._shared.scope import Refusal, Scope

_EXACT = (ast.Add, ast.Sub, ast.Mult)


@dataclass(frozen=True)
class Count:
    """A count that is a tensor from where it begins: `edits` make it one there, `flow` is what its readers ask for."""

    edits: tuple[Replacement, ...]
    flow: Flow


def count_of(scope: Scope, one: Assignment, head: ast.If) -> Count | None:
    """Return the count that an assignment in `head` adds a whole number to, None if it is not one.

    Raises:
        Refusal: something that reads the count needs a number.
    """
    name = one.name
    if not isinstance(one.operator, _EXACT) or not _is_whole(one.written):
        return None
    first: ast.Assign | None = None
    own = set(walk_function(scope.function.node))
    for node in walk(scope.function.node):
        if isinstance(node, ast.arg) and node.arg == name:
            return None
        if not isinstance(node, ast.Name) or node.id != name:
            continue
        parent = scope.parents.get(node)
        if node not in own:
            return None
        if isinstance(node.ctx, ast.Load) or _adds(parent, node, head, scope):
            continue
        if not isinstance(parent, ast.Assign) or parent.targets != [node] or not _is_whole(parent.value) or first:
            return None
        first = parent
    if first is None or first.lineno >= head.lineno:
        return None
    flow = flow_from(scope, list(loads(scope, name)), "int")
    if any(_overlaps(scope, edit, head) for edit in flow.edits):
        raise Refusal(f"`{name}` is read in the branch that adds to it; make it a tensor by hand")
    edit = Replacement(scope.file, *scope.file.span(first.value), f"{scope.torch}.tensor({scope.text(first.value)})")
    return Count((edit, *flow.edits), flow)


def _adds(statement: ast.AST | None, target: ast.Name, head: ast.If, scope: Scope) -> bool:
    """Whether a place that sets the count adds a whole number to it in the same branch."""
    added = isinstance(statement, ast.AugAssign) and statement.target is target and _is_whole(statement.value)
    return added and isinstance(statement, ast.AugAssign) and within(statement, head, scope)


def _is_whole(node: ast.expr) -> bool:
    """Whether an expression is a whole number, written out, of which sums fit into 64 bits."""
    return isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 2**31


def _overlaps(scope: Scope, edit: Replacement, node: ast.stmt) -> bool:
    start, end = scope.file.span(node)
    return edit.start < end and start < edit.end
