"""Loops that copy a window of the same size from each row.

for i in range(x.size(0)):                      places = starts.unsqueeze(1) + torch.arange(n, device=x.device)
    end = starts[i] + n                         out = x.gather(1, places)
    out[i] = x[i, starts[i]:end]
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint.rulekit import Rewrite, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.memory import is_own
from dynalint_rules._code.names import has_one_value, is_named, last_value, loads, statement_of, stores, within
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.number.flow import is_whole
from dynalint_rules._shared.number.row_stores import column_of, element_of_rows
from dynalint_rules._shared.text import atom

_LIKE = frozenset({"zeros_like", "empty_like", "ones_like"})
_TITLE = "Gather the windows of all rows at once"


@dataclass(frozen=True)
class _Copying:
    """A loop that copies `x[i, lower:upper]` to `copied[i]`, where `i` is `row` and `x` is `tensor`.

    `values` are the values of the names that the loop sets. If `wide` is true, there is a dimension before the window.
    """

    loop: ast.For
    row: str
    values: dict[str, ast.expr]
    copied: str
    tensor: ast.Name
    part: ast.Slice
    wide: bool


def gathered_at_once(scope: Scope, loop: ast.AST | None) -> Rewrite | None:
    """Return the rewrite of a loop that copies a window from each row of one tensor to the same row of another.

    It is None for anything else, also if `loop` is another node.
    """
    copying = _copying(loop)
    if copying is None or scope.tensor(copying.tensor) is None:
        return None
    taken, copied = copying.tensor.id, copying.copied
    made, _ = last_value(scope, copied, copying.loop, before_loop=True) or (None, None)
    size, starts = _size(scope, copying), _starts(scope, copying)
    if size is None or starts is None or not isinstance(made, ast.Assign) or _is_read_later(scope, copying):
        return None
    if not _visits_rows(scope, copying) or not _is_like_windows(scope, made.value, copying, size):
        return None
    if not is_own(scope, copied, copying.loop) or not _is_only_filled(scope, copied, made, copying.loop):
        return None
    if not all(is_pure(scope, one) for one in copying.values.values()):
        return None
    places = scope.fresh_name("places")
    column = f"{atom(starts, scope.text(starts))}.{column_of(scope, starts)}"
    lines = [
        f"{places} = {column} + {scope.torch}.arange({scope.text(size)}, device={taken}.device)",
        f"{copied} = {taken}.gather(2, {places}.unsqueeze(1).expand(-1, {taken}.size(1), -1))"
        if copying.wide
        else f"{copied} = {taken}.gather(1, {places})",
    ]
    edits = rw.written(scope.file, (made, []), (copying.loop, lines))
    every = (
        f"the loop visits every row of `{taken}`, {scope.quote(starts)} has one non-negative element for each row, and "
        f"each window ends within `{taken}`"
    )
    return Rewrite(_TITLE, "conditional", edits, (every,), scope.imports)


def _copying(loop: ast.AST | None) -> _Copying | None:
    match loop:
        case ast.For(
            ast.Name(row),
            body=[*before, ast.Assign([ast.Subscript(ast.Name(copied), ast.Name(stored))], window)],
            orelse=[],
        ) if stored == row:
            pass
        case _:
            return None
    match window:
        case ast.Subscript(ast.Name() as tensor, ast.Tuple([ast.Name(read), *between, ast.Slice(step=None) as part])):
            pass
        case _:
            return None
    values = _named_values(before)
    whole = len(between) < 2 and all(map(_is_whole_dimension, between))
    if values is None or not whole or read != row or tensor.id in (copied, *values):
        return None
    return _Copying(loop, row, values, copied, tensor, part, wide=bool(between))


def _is_read_later(scope: Scope, copying: _Copying) -> bool:
    """Return whether a name that the loop sets is read outside of it."""
    names = (copying.row, *copying.values)
    return any(not within(one, copying.loop, scope) for name in names for one in loads(scope, name))


def _named_values(statements: list[ast.stmt]) -> dict[str, ast.expr] | None:
    """Return the values that assignments give to names, or None if there is any other statement."""
    values: dict[str, ast.expr] = {}
    for one in statements:
        if not isinstance(one, ast.Assign) or len(one.targets) > 1 or not isinstance(one.targets[0], ast.Name):
            return None
        values[one.targets[0].id] = one.value
    return values


def _is_whole_dimension(part: ast.expr) -> bool:
    return isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None


def _visits_rows(scope: Scope, copying: _Copying) -> bool:
    """Return whether the number of iterations is the first size of the tensor that is read."""
    call = copying.loop.iter
    count = call.args[0] if isinstance(call, ast.Call) and len(call.args) == 1 else None
    if isinstance(count, ast.Name):
        stored = [*stores(scope, count.id)]
        made = statement_of(scope, stored[0]) if len(stored) == 1 and has_one_value(scope, count.id) else None
        match made:
            case ast.Assign(
                [ast.Tuple([ast.Name(first), *_])], ast.Call(ast.Attribute(owner, "size"), [])
            ) | ast.Assign([ast.Tuple([ast.Name(first), *_])], ast.Attribute(owner, "shape")) if first == count.id:
                return is_named(owner, copying.tensor.id)
            case ast.Assign([ast.Name()], value):
                count = value
    match count:
        case ast.Call(ast.Attribute(owner, "size"), [ast.Constant(0)]) | ast.Call(ast.Name("len"), [owner]):
            return is_named(owner, copying.tensor.id)
        case ast.Subscript(ast.Attribute(owner, "shape"), ast.Constant(0)):
            return is_named(owner, copying.tensor.id)
    return False


def _is_like_windows(scope: Scope, made: ast.expr, copying: _Copying, size: ast.expr) -> bool:
    """Return whether an expression makes a tensor like `x[:, :n]`, with the shape and dtype of all windows."""
    match made:
        case ast.Call(_, [ast.Subscript(ast.Name(name), ast.Tuple([*others, ast.Slice(lower, upper, None)]))], []):
            pass
        case _:
            return False
    called = callee(scope, made).rpartition(".")[2] if isinstance(made, ast.Call) else ""
    whole = all(map(_is_whole_dimension, others)) and len(others) == 1 + copying.wide
    start = lower is None or (isinstance(lower, ast.Constant) and lower.value == 0)
    alike = name == copying.tensor.id and upper is not None and ast.dump(upper) == ast.dump(size)
    return called in _LIKE and whole and start and alike


def _size(scope: Scope, copying: _Copying) -> ast.expr | None:
    """Return the number of elements in each window if Dynamo knows it and the loop does not change it, or None."""
    lower, upper = copying.part.lower, copying.part.upper
    end = copying.values.get(upper.id, upper) if isinstance(upper, ast.Name) else upper
    if lower is None or not isinstance(end, ast.BinOp) or not isinstance(end.op, ast.Add):
        return None
    sides = (end.left, end.right)
    sizes = [other for one, other in zip(sides, sides[::-1], strict=True) if ast.dump(one) == ast.dump(lower)]
    if len(sizes) != 1 or not is_whole(scope.kind(sizes[0])):
        return None
    names = {one.id for one in walk(sizes[0]) if isinstance(one, ast.Name)}
    return sizes[0] if names.isdisjoint((copying.row, *copying.values)) else None


def _starts(scope: Scope, copying: _Copying) -> ast.expr | None:
    """Return the tensor whose element for a row is where the row's window starts, or None."""
    lower = copying.part.lower
    start = copying.values.get(lower.id, lower) if isinstance(lower, ast.Name) else lower
    return element_of_rows(scope, copying.loop, copying.row, start) if start is not None else None


def _is_only_filled(scope: Scope, name: str, made: ast.Assign, loop: ast.For) -> bool:
    """Return whether a tensor is not read between the statement that makes it and the end of the loop that fills it."""
    filled = [one for one in loads(scope, name) if within(one, loop, scope)]
    return (
        scope.parents[made] is scope.parents[loop]
        and len(filled) == 1
        and list(stores(scope, name)) == made.targets
        and not any(made.lineno < one.lineno < loop.lineno for one in loads(scope, name))
        and is_named(made.targets[0], name)
    )
