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
from dynalint_rules._code.names import is_named, last_value, loads, statement_of, stores, within
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.number.flow import is_whole
from dynalint_rules._shared.number.row_stores import column_of, element_of_rows
from dynalint_rules._shared.text import atom

_MAKING = frozenset({"zeros", "empty", "ones"})
_LIKE = frozenset(f"{name}_like" for name in _MAKING)
_NEW = frozenset(f"new_{name}" for name in _MAKING)
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
    if not _visits_rows(scope, copying) or not _has_same_dtype(scope, made.value, taken):
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
    """Return whether the number of iterations is a size of one of the two tensors."""
    counted = set[ast.AST](walk(copying.loop.iter))
    for one in [node for node in counted if isinstance(node, ast.Name)]:
        counted |= {part for store in stores(scope, one.id) for part in walk(statement_of(scope, store))}
    named = {node.id for node in counted if isinstance(node, ast.Name)}
    return not named.isdisjoint((copying.tensor.id, copying.copied))


def _has_same_dtype(scope: Scope, made: ast.expr, name: str) -> bool:
    """Return whether an expression makes a tensor with the dtype of the tensor `name`."""
    if not isinstance(made, ast.Call):
        return False
    given = {one.arg: ast.unparse(one.value) for one in made.keywords}
    called = callee(scope, made).rpartition(".")[2]
    if given.get("dtype") == f"{name}.dtype":
        return called in _MAKING
    like = (
        made.args[0]
        if called in _LIKE and made.args
        else made.func.value
        if isinstance(made.func, ast.Attribute)
        else None
    )
    like = like.value if isinstance(like, ast.Subscript) else like
    return "dtype" not in given and called in (*_LIKE, *_NEW) and like is not None and is_named(like, name)


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
