"""Loops that store a number in the first elements of each row, or in all others.

for i, length in enumerate(lengths.tolist()):   mask[torch.arange(mask.shape[1]) >= lengths.unsqueeze(1)] = True
    mask[i, length:] = True

If the statement before creates the mask, it becomes `mask = torch.arange(n) >= lengths.unsqueeze(1)`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint.rulekit import Rewrite, k, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.names import loads, within
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.number.takers import EXTREMES

# Between the line lengths of common formatters and the longer lines of larger projects.
_LONGEST_LINE = 100


def filled_at_once(scope: Scope, loop: ast.AST | None) -> Rewrite | None:
    """Return the rewrite of a loop that sets the first elements of each row, or all others, to the same number.

    It is None for anything else, also if `loop` is another node.
    """
    match loop:
        case ast.For(body=[ast.Assign([ast.Subscript(ast.Name(rows) as filled, index)], value)], orelse=[]):
            told = {node.id for node in walk(loop.target) if isinstance(node, ast.Name)}
        case _:
            return None
    match index:
        case ast.Tuple([ast.Name(row), ast.Slice(step=None) as part]) if _is_number(scope, value, told):
            pass
        case _:
            return None
    from_start = part.lower is None or (isinstance(part.lower, ast.Constant) and part.lower.value == 0)
    bound = part.upper if from_start else part.lower if part.upper is None else None
    lengths = element_of_rows(scope, loop, row, bound) if bound is not None else None
    read_later = any(not within(one, loop, scope) for name in told for one in loads(scope, name))
    if lengths is None or read_later:
        return None
    if scope.tensor(filled) is None:
        return None
    sign = "<" if from_start else ">="
    listed = any(isinstance(node, ast.Call) and callee(scope, node) == "Tensor.tolist" for node in walk(loop.iter))
    column = f"{scope.text(lengths)}.{_column_of(scope, lengths, flat=listed)}"
    every = (
        f"the loop visits every row of `{rows}`, and {scope.quote(lengths)} is on the same device and has one "
        "non-negative element for each row"
    )
    places = f"{scope.torch}.arange({rows}.shape[1], device={rows}.device)"
    chosen, number = f"{places} {sign} {column}", scope.text(value)
    if (new := _new_mask(scope, loop, filled, value)) is not None:
        compared = f"{scope.torch}.arange({new.size}{new.device}) {sign} {column}"
        line = f"{rows} = ({compared}).{new.conversion}" if new.conversion else f"{rows} = {compared}"
        edits = rw.written(scope.file, (new.statement, []), (loop, [line]))
        return Rewrite("Compare all rows at once", "conditional", edits, (every,), scope.imports)
    lines = [f"{rows}[{chosen}] = {number}"]
    if loop.col_offset + len(lines[0]) > _LONGEST_LINE:
        name = scope.fresh_name("inside" if from_start else "outside")
        lines = [f"{name} = {chosen}", f"{rows}[{name}] = {number}"]
    edits = rw.written(scope.file, (loop, lines))
    return Rewrite("Fill all rows at once", "conditional", edits, (every,), scope.imports)


@dataclass(frozen=True)
class _NewMask:
    """The statement that creates a mask of two dimensions, all false or 0, with the code of its second size and device.

    `conversion` is the call of the method that gives a bool tensor its dtype.
    """

    statement: ast.Assign
    size: str
    device: str
    conversion: str


def _new_mask(scope: Scope, loop: ast.For, filled: ast.Name, value: ast.expr) -> _NewMask | None:
    """Return how the mask that a loop sets to true or 1 was created, if that is in the statement before the loop."""
    around = (getattr(scope.parents[loop], field, None) for field in ("body", "orelse", "finalbody"))
    block = next(one for one in around if isinstance(one, list) and loop in one)
    match block[block.index(loop) - 1] if loop is not block[0] else None:
        case ast.Assign([ast.Name(name)], ast.Call(args=sizes, keywords=keywords) as call) as made if name == filled.id:
            given = {one.arg: one.value for one in keywords}
        case _:
            return None
    size, kind = _second_size(scope, sizes), scope.tensor(call)
    if callee(scope, call) != "torch.zeros" or size is None or kind is None or not given.keys() <= {"dtype", "device"}:
        return None
    if not isinstance(value, ast.Constant) or value.value != 1 or kind.dtype not in ("bool", "float"):
        return None
    conversion = f"to({scope.text(given['dtype'])})" if "dtype" in given else "float()"
    device = f", device={scope.text(given['device'])}" if "device" in given else ""
    return _NewMask(made, size, device, "" if kind.dtype == "bool" else conversion)


def _second_size(scope: Scope, sizes: list[ast.expr]) -> str | None:
    """Return the code of the second of two sizes: `zeros(n, m)`, `zeros((n, m))` or `zeros(x.shape[:2])`."""
    if any(isinstance(one, ast.Starred) for size in sizes for one in walk(size)):
        return None
    match sizes:
        case [_, second]:
            return scope.text(second)
        case [ast.Tuple([_, second]) | ast.List([_, second])]:
            return scope.text(second)
        case [ast.Subscript(ast.Attribute(attr="shape") as shape, ast.Slice(None, ast.Constant(2), None))]:
            return f"{scope.text(shape)}[1]"
    return None


def _column_of(scope: Scope, lengths: ast.expr, *, flat: bool = False) -> str:
    """Return the call of the method that makes a tensor with one element for each row a column.

    It is certain that the tensor has one dimension if it is `flat`.
    """
    return "unsqueeze(1)" if flat or scope.rank(lengths) == 1 else "reshape(-1, 1)"


def element_of_rows(scope: Scope, loop: ast.For | ast.comprehension, row: str, bound: ast.expr) -> ast.expr | None:
    """Return the tensor whose element for the current row is `bound` in every iteration, or None."""
    call = loop.iter
    if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords:
        return None
    source: ast.expr | None = None
    if callee(scope, call) == "builtins.enumerate" and isinstance(bound, ast.Name):
        both = [one.id for one in walk(loop.target) if isinstance(one, ast.Name)]
        source = _unlisted(scope, call.args[0]) if both == [row, bound.id] else None
    elif callee(scope, call) == "builtins.range" and isinstance(loop.target, ast.Name) and loop.target.id == row:
        inside = list(walk(call.args[0]))
        called = {callee(scope, node) for node in inside if isinstance(node, ast.Call)}
        if any(isinstance(node, ast.BinOp | ast.IfExp) for node in inside) or called & EXTREMES:
            return None  # it may not visit every row
        element = _read(scope, bound)
        if isinstance(element, ast.Subscript) and isinstance(element.slice, ast.Name) and element.slice.id == row:
            source = element.value
    tensor = scope.tensor(source) if isinstance(source, ast.Name | ast.Attribute) else None
    return source if tensor is not None and tensor.rank in (1, None) else None


def _unlisted(scope: Scope, node: ast.expr) -> ast.expr:
    """Return the tensor that `.tolist()` lists, or any other node itself."""
    match node:
        case ast.Call(ast.Attribute(tensor)) if callee(scope, node) == "Tensor.tolist":
            return tensor
    return node


def _read(scope: Scope, node: ast.expr) -> ast.expr:
    """Return the tensor whose number `.item()` or `int()` reads, or any other node itself."""
    match node:
        case ast.Call(ast.Attribute(tensor)) if callee(scope, node) == "Tensor.item":
            return tensor
        case ast.Call(_, [tensor]) if callee(scope, node) == "builtins.int":
            return tensor
    return node


def _is_number(scope: Scope, value: ast.expr, changing: set[str]) -> bool:
    """Return whether an expression is the same Python number in every iteration."""
    kinds = scope.kind(value).members
    names = {node.id for node in walk(value) if isinstance(node, ast.Name)}
    numbers = all(isinstance(one, k.Value) and one.type in ("bool", "int", "float") for one in kinds)
    return numbers and not names & changing and is_pure(scope, value)
