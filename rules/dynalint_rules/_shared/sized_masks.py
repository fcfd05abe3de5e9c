"""What a mask selects of which sizes alone tell how much that is: all off the diagonal, say.

own = torch.eye(n, dtype=torch.bool)      own = torch.eye(n, dtype=torch.bool)
others = x[~own].view(n, -1)              first = own.flatten().argsort(stable=True)[: n * (n - 1)]
                                          others = x.flatten(0, 1)[first].view(n, -1)
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint import rewriting as rw
from dynalint.analysis.events import Subscript
from dynalint.analysis.index import walk_function
from dynalint.rules import Rewrite
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.memory import changes_in_place, sharing
from dynalint_rules._shared.names import only_value, statement_of, within
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.text import atom

_TITLE = "Put what is selected first, of which sizes tell how much it is"
_KEEPING = ("bool", "to", "cuda", "cpu")


@dataclass(frozen=True)
class _Diagonals:
    """`node` is a square matrix, `size` rows long, that is true, or one, on `count` diagonals and nothing else."""

    node: ast.expr
    size: str
    count: int


def sized_selection(scope: Scope, event: Subscript) -> Rewrite | None:
    """Return the rewrite of a read by a mask that is false, or true, on the diagonal alone; None for other masks."""
    read = event.node
    found = _selected(scope, read.slice, read)
    if found is None or scope.tensor(read.value) is None:
        return None
    square, inverted = found
    size, text = square.size, atom(square.node, scope.text(square.node))
    if isinstance(read.slice, ast.Name):
        # The name of the mask itself may be all there is.
        size, text = f"{read.slice.id}.shape[0]", f"(~{read.slice.id})"
    elif not inverted:
        text = f"(~{text})"
    number = f"{size} * ({size} - {square.count})" if inverted else f"{square.count} * {size}".removeprefix("1 * ")
    order = f"{text}.flatten().argsort(stable=True)[: {number}]"
    source = atom(read.value, scope.text(read.value))
    edits = rw.written(scope.file, (read, f"{source}.flatten(0, 1)[{order}]"))
    condition = f"{scope.quote(read.value)} has as many rows and columns as the mask"
    return Rewrite(_TITLE, "conditional", edits, (condition,), scope.imports)


def _selected(scope: Scope, mask: ast.expr, read: ast.expr) -> tuple[_Diagonals, bool] | None:
    """The diagonals that a mask is made of, and whether it selects all but them."""
    if isinstance(mask, ast.Name):
        value = only_value(scope, mask.id, read)
        if value is not None and mask.id in scope.function.locals and _opposite(scope, value) is not None:
            unchanged = not any(True for one in sharing(scope, mask.id) for _ in changes_in_place(scope, one))
            return _selected(scope, value, read) if unchanged else None
    inner = _opposite(scope, mask)
    square = _diagonals(scope, mask if inner is None else inner, read)
    known = scope.tensor(mask)
    return None if square is None or known is None or known.dtype != "bool" else (square, inner is not None)


def _opposite(scope: Scope, mask: ast.expr) -> ast.expr | None:
    """The `m` of `~m`, `m == 0` and `m.logical_not()`."""
    if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert):
        known = scope.tensor(mask.operand)
        return mask.operand if known is not None and known.dtype == "bool" else None
    if isinstance(mask, ast.Compare) and isinstance(mask.ops[0], ast.Eq) and len(mask.ops) == 1:
        zero = mask.comparators[0]
        return mask.left if isinstance(zero, ast.Constant) and zero.value in (0, False) else None
    if isinstance(mask, ast.Call) and callee(scope, mask) in ("Tensor.logical_not", "torch.logical_not"):
        given = [*([mask.func.value] if callee(scope, mask) == "Tensor.logical_not" else []), *mask.args]  # type: ignore[attr-defined]
        return given[0] if len(given) == 1 and not mask.keywords else None
    return None


def _diagonals(scope: Scope, node: ast.expr, read: ast.expr) -> _Diagonals | None:
    if not isinstance(node, ast.Name):
        size = _eye(scope, node)
        text = "" if size is None else atom(size, scope.text(size))
        return None if size is None or not is_pure(scope, node) else _Diagonals(node, text, 1)
    made = only_value(scope, node.id, read)
    size = _eye(scope, made) if made is not None and node.id in scope.function.locals else None
    if made is None or size is None:
        return None
    changes = [one for name in sharing(scope, node.id) for one in changes_in_place(scope, name)]
    statements = {statement_of(scope, one) for one in changes}
    if len(statements) > 1 or not all(_fills_quarters(scope, one, node.id, made, size, read) for one in statements):
        return None
    return _Diagonals(node, f"{node.id}.shape[0]", 1 + len(statements))


def _eye(scope: Scope, node: ast.expr) -> ast.expr | None:
    """The `n` of `torch.eye(n)`, on whatever device and of whatever dtype."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPING:
        node = node.func.value
    if not isinstance(node, ast.Call) or callee(scope, node) != "torch.eye" or len(node.args) != 1:
        return None
    plain = {keyword.arg for keyword in node.keywords} <= {"dtype", "device"}
    return node.args[0] if plain and not isinstance(node.args[0], ast.Starred) else None


def _fills_quarters(
    scope: Scope, statement: ast.stmt, name: str, made: ast.expr, size: ast.expr, read: ast.expr
) -> bool:
    """Whether a statement is `m[h:, :h] = m[:h, h:] = m[:h, :h]`, right behind `m = torch.eye(2 * h)`.

    It gives each of the four quarters a diagonal.
    """
    making = statement_of(scope, made)
    half = _half(size)
    if not isinstance(statement, ast.Assign) or half is None or scope.parents[statement] is not scope.parents[making]:
        return False
    stored = {ast.unparse(one) for one in statement.targets}
    if stored != {f"{name}[{half}:, :{half}]", f"{name}[:{half}, {half}:]"}:
        return False
    if ast.unparse(statement.value) != f"{name}[:{half}, :{half}]" or not half.isidentifier():
        return False
    stores = (one for one in walk_function(scope.function.node) if isinstance(one, ast.Name) and one.id == half)
    if any(making.lineno <= one.lineno <= statement.lineno and isinstance(one.ctx, ast.Store) for one in stores):
        return False
    return making.lineno < statement.lineno < read.lineno and within(read, scope.parents[statement], scope)


def _half(size: ast.expr) -> str | None:
    """The text of `h` of `2 * h` and `h * 2`."""
    if isinstance(size, ast.BinOp) and isinstance(size.op, ast.Mult):
        for one, other in ((size.left, size.right), (size.right, size.left)):
            if isinstance(one, ast.Constant) and one.value == 2:
                return ast.unparse(other)
    return None
