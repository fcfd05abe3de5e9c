"""Index with tensors where a number is an index or the start of a slice, so that torch does not have to read it."""

from __future__ import annotations

import ast

from dynalint.rulekit import Refusal, k, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.names import has_one_value, is_named, only_value, stores
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.number.flow import is_whole
from dynalint_rules._shared.text import atom

# Methods and attributes of a tensor that keep its sizes, possibly in another order.
_PLAIN = (ast.Name, ast.Constant, ast.BinOp, ast.operator, ast.expr_context)
_READING = frozenset(f"builtins.{name}" for name in "bool float int".split())
_SAME_SIZES = frozenset("T mT t transpose detach clone contiguous float to type_as".split())


def with_a_dimension(scope: Scope, node: ast.Subscript, index: ast.expr) -> tuple[list[rw.Change], str]:
    """Return the changes from `x[i]` to `x[i.reshape(1)].squeeze(0)`, and the condition for them.

    Raises:
        Refusal: If another index is neither a slice nor an int that Dynamo knows, the code uses NumPy, or what is
            selected is read as a number.
    """
    array = [one for one in (node.value, index) if (known := k.only_tensor(scope.kind(one))) and known.array]
    if array:
        raise Refusal(f"{scope.quote(array[0])} is a NumPy array; index a tensor with a tensor instead")
    if _is_read(scope, node):
        raise Refusal(f"what {scope.quote(node)} selects is read as a number, which breaks the graph too")
    parts = parts_of(node)
    others = [part for part in parts if part is not index and not isinstance(part, ast.Slice)]
    if not all(is_whole(scope.kind(part)) for part in others):
        raise Refusal(
            f"{scope.quote(index)} is combined with other indices; index in separate steps, with this index alone"
        )
    changes: list[rw.Change] = [(index, rw.calling("reshape", rw.number(1)))]
    if isinstance(node.ctx, ast.Load):
        # Indexing with an integer removes the dimension.
        place = sum(isinstance(part, ast.Slice) for part in parts[: parts.index(index)])
        changes.append((node, rw.calling("squeeze", rw.number(place))))
    return changes, unmodified(scope, node)


def _is_read(scope: Scope, node: ast.Subscript) -> bool:
    parent = scope.parents[node]
    if isinstance(parent, ast.Attribute):
        return parent.attr in ("item", "tolist")
    return isinstance(parent, ast.Call) and callee(scope, parent) in _READING


def parts_of(node: ast.Subscript) -> list[ast.expr]:
    """Return a subscript's indices, one for each dimension."""
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def unmodified(scope: Scope, node: ast.Subscript) -> str:
    return f"nothing modifies {scope.quote(node)} in place, or {scope.quote(node.value)} while it is used"


def as_window(scope: Scope, node: ast.Subscript, part: ast.Slice) -> tuple[list[rw.Change], list[str]] | None:
    """Return the changes from `x[i : i + n] = y` to `x[i + torch.arange(n)] = y`, and the conditions.

    The result is None for any other code. A slice that reads is a view, and may have fewer than `n` elements. A tensor
    with `n` elements does not fit into a shorter slice.
    """
    size = size_from(scope, part.lower, part.upper) if part.step is None else None
    statement = scope.parents[node]
    stored = statement.value if isinstance(statement, ast.Assign) and statement.targets == [node] else None
    plain = isinstance(node.value, ast.Name | ast.Attribute) and not any(
        isinstance(x, ast.Call) for x in walk(node.value)
    )
    if size is None or part.lower is None or stored is None or not plain or not _has_size(scope, stored, size):
        return None
    if not all(isinstance(one, ast.Slice) for one in parts_of(node)):
        return None
    start, taken = scope.text(part.lower), scope.text(node.value)
    places = f"{atom(part.lower, start)} + {scope.torch}.arange({scope.text(size)}, device={taken}.device)"
    # A slice converts what it stores, but an index needs the same dtype, which is another one under autocast.
    changes: list[rw.Change] = [
        (node, rw.spliced(scope.file, node, {part: places})),
        (stored, rw.calling("type_as", rw.kept(scope.file, node.value))),
    ]
    return changes, [f"{scope.quote(part.lower)} is not negative, and {scope.quote(node)} stays within the dimension"]


def _has_size(scope: Scope, stored: ast.expr, size: ast.expr) -> bool:
    """Return whether a number is a size of the tensor that is stored, or of what it is a transposition of."""
    measured = only_value(scope, size.id, size) if isinstance(size, ast.Name) else size
    if isinstance(measured, ast.Subscript | ast.Call):
        measured = measured.func if isinstance(measured, ast.Call) else measured.value
    if not isinstance(measured, ast.Attribute) or measured.attr not in ("shape", "size"):
        return False
    while isinstance(stored, ast.Attribute | ast.Call):
        if isinstance(stored, ast.Attribute) and stored.attr not in _SAME_SIZES:
            return False
        stored = stored.func if isinstance(stored, ast.Call) else stored.value
    if not isinstance(stored, ast.Name) or not is_named(measured.value, stored.id):
        return False
    return all(one.lineno < measured.lineno for one in stores(scope, stored.id))


def size_from(scope: Scope, start: ast.expr | None, end: ast.expr | None) -> ast.expr | None:
    """Return the number of elements between two bounds if it is a number that Dynamo knows, or None."""
    named = isinstance(end, ast.Name)
    if isinstance(end, ast.Name):
        end = only_value(scope, end.id, end)
    if not isinstance(start, ast.Name) or not isinstance(end, ast.BinOp) or not isinstance(end.op, ast.Add):
        return None
    sides = (end.left, end.right)
    sizes = [other for one, other in zip(sides, reversed(sides), strict=True) if is_named(one, start.id)]
    if len(sizes) != 1 or not is_whole(scope.kind(sizes[0])):
        return None
    later = {one.id for one in walk(sizes[0]) if isinstance(one, ast.Name)} if named else set[str]()
    fixed = not named or all(isinstance(one, _PLAIN) for one in walk(sizes[0]))
    return sizes[0] if fixed and all(has_one_value(scope, name) for name in later) else None


def rolled(scope: Scope, call: ast.Call, shift: ast.expr) -> list[rw.Change] | None:
    """Return the change from `torch.roll(x, shift, dim)` to an index, or None for other arguments.

    The index has to be computed for each element, because `roll` reads the shift from its tensor.
    """
    subject, given = call.func.value if isinstance(call.func, ast.Attribute) else call.func, call.args
    if callee(scope, call).startswith("torch."):
        subject, *given = call.args or [subject]
    keywords = {one.arg: one.value for one in call.keywords}
    shifts = given[0] if given else keywords.get("shifts")
    dim = given[1] if len(given) > 1 else keywords.get("dims")
    plain = isinstance(subject, ast.Name | ast.Attribute) and scope.tensor(subject) is not None
    if shifts is not shift or dim is None or not is_whole(scope.kind(dim)) or not plain:
        return None
    file, taken = scope.file, scope.text(subject)
    size = f"{taken}.shape[{scope.text(dim)}]"
    places = rw.expression(f"{scope.torch}.arange({size}, device={taken}.device)")
    back = isinstance(shift, ast.UnaryOp) and isinstance(shift.op, ast.USub)
    by = rw.kept(file, shift.operand if isinstance(shift, ast.UnaryOp) and back else shift)
    index = rw.operation(rw.operation(places, "+" if back else "-", by), "%", rw.expression(size))
    return [(call, rw.call(f"{scope.torch}.index_select", rw.kept(file, subject), rw.kept(file, dim), index))]
