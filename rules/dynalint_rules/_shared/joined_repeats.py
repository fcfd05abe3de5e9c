"""One tensor repeated a drawn number of times, joined with another that fills up to a fixed number: a choice by place.

head = a.unsqueeze(1).repeat(1, i, 1)          place = torch.arange(n, device=a.device)[:, None]
tail = b.unsqueeze(1).repeat(1, n - i, 1)      both = torch.where(place < i, a.unsqueeze(1), b.unsqueeze(1))
both = torch.cat([head, tail], 1)
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint import rewriting as rw
from dynalint.analysis.steps import walk
from dynalint.rules import Rewrite
from dynalint_rules._shared.blocks import statements_after
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.names import loads, statement_of, within
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.text import atom, call, indentation

_TITLE = "Choose by place instead of repeating a number of times"
_JOINING = ("torch.cat", "torch.concat", "torch.concatenate")


@dataclass(frozen=True)
class _Repeated:
    """`name = subject.unsqueeze(place).repeat(1, times, 1)`, with `rank` arguments for `repeat`."""

    statement: ast.Assign
    name: str
    source: ast.expr
    subject: ast.expr
    times: ast.expr
    place: int
    rank: int


def chosen_by_place(scope: Scope, node: ast.expr) -> Rewrite | None:
    """Return the rewrite of three statements, in one of which `node` is a number of times; else None."""
    statement = statement_of(scope, node)
    for first in (statement, _before(scope, statement)):
        head = _repeated(first) if first is not None else None
        after = statements_after(scope, head.statement)[:2] if head is not None else []
        tail = _repeated(after[0]) if len(after) == 2 else None
        if head is None or tail is None or not isinstance(head.times, ast.Name):
            continue
        joined = _joined(scope, after[1], head, tail)
        number = _number(tail.times, head.times.id)
        if joined is not None and number is not None:
            return _rewrite(scope, head, tail, joined, number)
    return None


def _repeated(statement: ast.stmt) -> _Repeated | None:
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target, repeat = statement.targets[0], statement.value
    if not isinstance(target, ast.Name) or not _is_method(repeat, "repeat"):
        return None
    assert isinstance(repeat, ast.Call)
    assert isinstance(repeat.func, ast.Attribute)
    source = repeat.func.value
    varied = [at for at, one in enumerate(repeat.args) if not (isinstance(one, ast.Constant) and one.value == 1)]
    if len(varied) != 1 or not _is_method(source, "unsqueeze"):
        return None
    assert isinstance(source, ast.Call)
    assert isinstance(source.func, ast.Attribute)
    if [_place(one) for one in source.args] != varied:
        return None
    place, subject = varied[0], source.func.value
    if any(isinstance(one, ast.Call) for one in walk(subject)):
        return None  # it is written twice
    return _Repeated(statement, target.id, source, subject, repeat.args[place], place, len(repeat.args))


def _is_method(node: ast.expr, name: str) -> bool:
    method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name
    return method and isinstance(node, ast.Call) and not node.keywords


def _place(node: ast.expr) -> int | None:
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _number(rest: ast.expr, drawn: str) -> ast.expr | None:
    """The `n` of `n - drawn`."""
    if not isinstance(rest, ast.BinOp) or not isinstance(rest.op, ast.Sub) or ast.unparse(rest.right) != drawn:
        return None
    return rest.left if isinstance(rest.left, ast.Name | ast.Attribute | ast.Constant) else None


def _joined(scope: Scope, statement: ast.stmt, head: _Repeated, tail: _Repeated) -> ast.Assign | ast.Return | None:
    """The statement, if it joins the two and nothing else reads them."""
    value = statement.value if isinstance(statement, ast.Assign | ast.Return) else None
    if not isinstance(value, ast.Call) or callee(scope, value) not in _JOINING or not value.args:
        return None
    place = [*value.args[1:], *(one.value for one in value.keywords if one.arg in ("dim", "axis"))]
    if len(value.args) + len(value.keywords) != 2 or [_place(one) for one in place] != [head.place]:
        return None
    parts = value.args[0]
    if not isinstance(parts, ast.List | ast.Tuple) or [ast.unparse(one) for one in parts.elts] != [
        head.name,
        tail.name,
    ]:
        return None
    kept = {head.name, tail.name} - set(map(ast.unparse, getattr(statement, "targets", ())))
    if any(not within(one, statement, scope) for name in kept for one in loads(scope, name)):
        return None
    alike = head.name != tail.name and (head.place, head.rank) == (tail.place, tail.rank)
    return statement if alike and isinstance(statement, ast.Assign | ast.Return) else None


def _rewrite(
    scope: Scope, head: _Repeated, tail: _Repeated, joined: ast.Assign | ast.Return, number: ast.expr
) -> Rewrite | None:
    file = scope.file
    if not all(is_pure(scope, one) for one in (head.source, tail.source, number)):
        return None
    read = {one.id for part in (tail.source, number) for one in walk(part) if isinstance(one, ast.Name)}
    if head.name in read or {head.name, tail.name} & {scope.text(head.times), scope.text(number)}:
        return None
    assert joined.value is not None
    first = scope.file.text[file.span(joined)[0] : file.span(joined.value)[0]]
    columns = "[:" + ", None" * (head.rank - 1 - head.place) + "]" if head.place < head.rank - 1 else ""
    device = f"device={atom(head.subject, scope.text(head.subject))}.device"
    places = f"{scope.torch}.arange({scope.text(number)}, {device}){columns}"
    indent = indentation(file, head.statement.lineno)
    arguments = [f"{places} < {scope.text(head.times)}", scope.text(head.source), scope.text(tail.source)]
    column = len(indent) + len(first)
    text = call(f"{scope.torch}.where", arguments, column=column, indent=indent, newline=file.newline)
    conditions = (
        f"{scope.quote(head.source)} has {head.rank} dimensions",
        f"{scope.quote(head.times)} is from 0 to {scope.quote(number)}",
    )
    after = statements_after(scope, head.statement)
    edits = rw.written(file, ([head.statement, *after[: after.index(joined) + 1]], [first + text]))
    return Rewrite(_TITLE, "conditional", edits, conditions, scope.imports)


def _before(scope: Scope, statement: ast.stmt) -> ast.stmt | None:
    """The statement before another one in its block."""
    parent = scope.parents[statement]
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, ())
        if isinstance(block, list) and statement in block:
            place = block.index(statement)
            return block[place - 1] if place else None
    return None
