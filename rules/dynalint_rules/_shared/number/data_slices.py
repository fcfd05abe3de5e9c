"""Slices with bounds from data: those that are set to one value, and those that read a fixed number of elements.

x[:, t : t + n] = 0                             places = torch.arange(x.shape[1], device=x.device)
                                                x[:, (places >= t) & (places < t + n)] = 0

t = torch.randint(0, x.shape[1] - 7, ())        t = torch.randint(0, x.shape[1] - 7, ())
y = x[:, t : t + 8]                             y = x[:, t + torch.arange(8, device=x.device)]
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dynalint.rulekit import is_mask, k, rw, walk
from dynalint_rules._code.bounds import is_made_on_default_device, may_be_negative
from dynalint_rules._code.calls import callee
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.names import only_value
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.number.flow import is_whole
from dynalint_rules._shared.number.single_index import parts_of, size_from, unmodified
from dynalint_rules._shared.text import atom

if TYPE_CHECKING:
    Changes = tuple[list[rw.Change], list[str]]


def fixed_slices(scope: Scope, node: ast.Subscript, slices: Sequence[ast.Slice]) -> Changes | None:
    """Return the changes with which the bounds of some slices of a tensor can be tensors, and the conditions, or None.

    If there are two, or another is an index or a mask that an earlier rewrite has made, they are beside each other.
    """
    tensor, parts, reads = scope.tensor(node.value), parts_of(node), isinstance(node.ctx, ast.Load)
    ahead = parts[:1] if _is_ellipsis(parts[0]) else []
    if tensor is None or tensor.array or not isinstance(node.value, ast.Name | ast.Attribute | ast.Subscript):
        return None
    made = [one for one in parts if (_is_index(scope, one) if reads else _is_mask(scope, one))]
    places = sorted(parts.index(one) for one in (*slices, *made))
    others = [one for one in parts if one not in (*made, *ahead) and not isinstance(one, ast.Slice)]
    bounds = [bound for one in slices for bound in (one.lower, one.upper) if bound is not None]
    fixed = all(is_whole(scope.kind(one)) for one in others) and not any(one.step for one in slices)
    if not fixed or not bounds or len(places) > 2 or places[-1] - places[0] > 1:
        return None
    if any(isinstance(one, ast.Call) for part in (node.value, *bounds) for one in walk(part)):
        return None
    return _read(scope, node, slices, made) if reads else _filled(scope, node, slices, made)


def _filled(scope: Scope, node: ast.Subscript, slices: Sequence[ast.Slice], masks: list[ast.expr]) -> Changes | None:
    """Return the changes to a statement that sets the slices to one value, and the conditions, or None."""
    statement, parts = scope.parents[node], parts_of(node)
    stored = statement.value if isinstance(statement, ast.Assign) and statement.targets == [node] else None
    if stored is None or not _is_one(scope, stored) or not is_pure(scope, stored):
        return None
    bounds = [bound for one in slices for bound in (one.lower, one.upper) if bound is not None]
    if is_made_on_default_device(scope, node.value) or any(may_be_negative(scope, one) for one in bounds):
        return None
    taken, lines, texts = scope.text(node.value), [], {one: scope.text(one) for one in (*parts, *masks)}
    stems = ("rows", "columns") if len(slices) > 1 else ("places",)
    for part, stem in zip(slices, stems, strict=True):
        name, at = scope.fresh_name(stem), parts.index(part)
        at -= len(parts) if _is_ellipsis(parts[0]) else 0
        lines.append(f"{name} = {scope.torch}.arange({taken}.shape[{at}], device={taken}.device)")
        tests = [] if part.lower is None else [f"{name} >= {_position(scope, part.lower)}"]
        tests += [] if part.upper is None else [f"{name} < {_position(scope, part.upper)}"]
        texts[part] = tests[0] if len(tests) == 1 else " & ".join(f"({one})" for one in tests)
    joined = [one for one in parts if one in slices or one in masks]
    if len(joined) > 1:
        first, second = joined
        texts[first] = f"({texts[first]})[:, None] & ({texts[second]})"
        parts.remove(second)
    lines.append(f"{taken}[{', '.join(texts[one] for one in parts)}] = {scope.text(stored)}")
    shown = [*dict.fromkeys(map(scope.quote, bounds))]
    conditions = [f"{' and '.join(shown)} {'are' if len(shown) > 1 else 'is'} not negative"]
    if not k.is_number(scope.kind(stored)):
        conditions.append(f"{scope.quote(stored)} has the dtype of {scope.quote(node.value)}")
    assert isinstance(statement, ast.Assign)
    return [(statement, lines)], conditions


def _read(scope: Scope, node: ast.Subscript, slices: Sequence[ast.Slice], made: list[ast.expr]) -> Changes | None:
    """Return the changes to a read of as many elements on every call, and the conditions, or None."""
    used = scope.parents.get(node)
    if isinstance(used, ast.Attribute) and used.attr.endswith("_") and not used.attr.endswith("__"):
        return None  # it is changed in place, and an index makes a copy
    taken, conditions = scope.text(node.value), [unmodified(scope, node)]
    texts = {one: scope.text(one) for one in made}
    for part in slices:
        size = size_from(scope, part.lower, part.upper)
        if size is None or part.lower is None or not _is_drawn(scope, part.lower):
            return None
        start = _position(scope, part.lower)
        texts[part] = f"{atom(part.lower, start)} + {scope.torch}.arange({scope.text(size)}, device={taken}.device)"
        shown = scope.quote(part.lower)
        conditions.append(f"{shown} is not negative, and the slice stays within {scope.quote(node.value)}")
    if len(texts) > 1:
        first = min(texts, key=parts_of(node).index)
        texts[first] = f"({texts[first]})[:, None]"
    return [(node, rw.spliced(scope.file, node, texts))], conditions


def _position(scope: Scope, bound: ast.expr) -> str:
    """Return the text of a bound. A tensor with dimensions could not be on another device."""
    text = scope.text(bound)
    return f"{atom(bound, text)}.reshape(())" if scope.rank(bound) else text


def _is_drawn(scope: Scope, start: ast.expr) -> bool:
    """Return whether a position is drawn from those from which a window stays within a tensor, which all are valid.

    Other windows may end after the tensor, and then a slice has fewer elements, where an index raises an exception.
    """
    value = only_value(scope, start.id, start) if isinstance(start, ast.Name) else None
    drawn = (one for one in walk(value) if isinstance(one, ast.Call)) if value is not None else ()
    calls = [one for one in drawn if callee(scope, one) == "torch.randint"]
    bounds = [part for one in calls for given in one.args for part in walk(given)]
    sizes = any(isinstance(one, ast.BinOp) and isinstance(one.op, ast.Sub) for one in bounds)
    return sizes and not any(isinstance(one, ast.Call) and _bounds(one) for one in bounds)


def _bounds(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in ("max", "min", "clamp")


def _is_ellipsis(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value is ...


def _is_one(scope: Scope, stored: ast.expr) -> bool:
    """Return whether a value is a single number, possibly in a tensor without dimensions."""
    return all(
        k.is_number(one) or (isinstance(one, k.Tensor) and one.rank == 0 and not one.array)
        for one in scope.kind(stored).members
    )


def _is_index(scope: Scope, part: ast.expr) -> bool:
    """Return whether an index is a range of positions from a tensor on, as this rewrite makes them."""
    last = part.right if isinstance(part, ast.BinOp) else part
    return isinstance(last, ast.Call) and callee(scope, last) == "torch.arange" and scope.rank(part) == 1


def _is_mask(scope: Scope, part: ast.expr) -> bool:
    """Return whether an index is a mask for one dimension, as this rewrite makes them."""
    return isinstance(part, ast.Compare | ast.BinOp) and is_mask(scope.kind(part)) and scope.rank(part) == 1
