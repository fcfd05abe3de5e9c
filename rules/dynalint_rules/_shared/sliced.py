"""Slices whose bounds are tensors: a mask stands for the bounds where the elements are only added up.

x[:n].sum(0)        torch.where((torch.arange(x.size(0), device=x.device) < n)[:, None], x, 0).sum(0)
x[n : n + 2]        x.index_select(0, n + torch.arange(2, device=x.device))
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from dynalint import rewriting as rw
from dynalint.rules import Refusal
from dynalint_rules._shared.known_numbers import is_whole
from dynalint_rules._shared.masked_reductions import OTHER_ORDER
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.single_index import parts_of
from dynalint_rules._shared.text import atom

NO_FORM = (
    "a graph has no place for a result whose length depends on data; keep the whole dimension and mask it with "
    "`torch.arange(n) < length`, with a filler that suits what is done with the slice"
)


@dataclass(frozen=True)
class Sliced:
    """What takes the place of a slice: `edits`, what they change by nature, and what must hold."""

    edits: list[rw.Change]
    changes: list[str]
    conditions: list[str]


@dataclass(frozen=True)
class _Cut:
    """`node` cuts dimension `dim` of `whole`, a tensor of `rank` dimensions, at `lower` and `upper`."""

    node: ast.Subscript
    whole: str
    dim: int
    rank: int | None
    lower: ast.expr | None
    upper: ast.expr | None


def without_bounds(scope: Scope, node: ast.Subscript, bound: ast.expr) -> Sliced:
    """Return what takes the place of a slice of a tensor, one of whose bounds is `bound`, a tensor of one element.

    Raises:
        Refusal: something else than a sum or a mean is made of it, or nothing is known of the other indices.
    """
    cut = _cut(scope, node, bound)
    length = _length(cut)
    return _window(scope, cut, length) if length is not None else _reduction(scope, cut)


def _cut(scope: Scope, node: ast.Subscript, bound: ast.expr) -> _Cut:
    parts, tensor = parts_of(node), scope.tensor(node.value)
    place = next((at for at, part in enumerate(parts) if isinstance(part, ast.Slice) and bound in _bounds(part)), None)
    if place is None or tensor is None or not isinstance(node.ctx, ast.Load):
        raise Refusal(NO_FORM)
    others = [*parts[:place], *parts[place + 1 :]]
    if not all(is_whole(scope.kind(part)) or (isinstance(part, ast.Slice) and _is_all(part)) for part in others):
        raise Refusal(f"{scope.quote(bound)} stands beside other indices; index in steps, with it in a step of its own")
    if not isinstance(node.value, ast.Name | ast.Attribute):
        raise Refusal(f"{scope.quote(node.value)} would be written more than once; give it a name first")
    cut = parts[place]
    assert isinstance(cut, ast.Slice)
    if cut.step is not None:
        raise Refusal(NO_FORM)
    texts = [":" if isinstance(part, ast.Slice) else scope.text(part) for part in parts]
    while texts and texts[-1] == ":":
        texts.pop()
    numbers = sum(not isinstance(part, ast.Slice) for part in parts)
    return _Cut(
        node,
        scope.text(node.value) + (f"[{', '.join(texts)}]" if texts else ""),
        sum(isinstance(part, ast.Slice) for part in parts[:place]),
        None if tensor.rank is None else tensor.rank - numbers,
        cut.lower,
        cut.upper,
    )


def _bounds(part: ast.Slice) -> list[ast.expr]:
    return [bound for bound in (part.lower, part.upper) if bound is not None]


def _is_all(part: ast.Slice) -> bool:
    return part.lower is None and part.upper is None and part.step is None


def _length(cut: _Cut) -> int | None:
    """The length of `[i : i + 2]`, where it is written out."""
    lower, upper = cut.lower, cut.upper
    if lower is None or not isinstance(upper, ast.BinOp) or not isinstance(upper.op, ast.Add):
        return None
    if ast.dump(upper.left) != ast.dump(lower) or not isinstance(upper.right, ast.Constant):
        return None
    length = upper.right.value
    return length if type(length) is int and length > 0 else None


def _window(scope: Scope, cut: _Cut, length: int) -> Sliced:
    """Select as many rows as the slice takes, wherever they begin."""
    assert cut.lower is not None
    shown, first = scope.quote(cut.node), atom(cut.lower, scope.text(cut.lower))
    rows = f"{first} + {scope.torch}.arange({length}, device={cut.whole}.device)"
    text = f"{cut.whole}.index_select({cut.dim}, {rows})"
    conditions = [
        f"{shown} begins at no negative number and ends within the tensor",
        f"nothing changes {shown} in place, nor {scope.quote(cut.node.value)} while it is used",
    ]
    return Sliced([(cut.node, text)], [], conditions)


def _reduction(scope: Scope, cut: _Cut) -> Sliced:
    """Take the sum or mean over the whole dimension, with zeros beyond the bounds."""
    attribute = scope.parents.get(cut.node)
    reduction = scope.parents.get(attribute) if attribute is not None else None
    if (
        not isinstance(attribute, ast.Attribute)
        or not isinstance(reduction, ast.Call)
        or reduction.func is not attribute
        or attribute.attr not in ("sum", "mean")
    ):
        raise Refusal(NO_FORM)
    own = _is_over(reduction, cut.dim)
    if own is None:
        raise Refusal(NO_FORM)
    conditions = []
    if attribute.attr == "mean" and not own:
        if cut.rank is None:
            conditions.append(f"`{cut.whole}` has one dimension")
        elif cut.rank > 1:
            raise Refusal(NO_FORM)
        cut = replace(cut, rank=1)
    if any(isinstance(bound, ast.UnaryOp | ast.Constant) for bound in (cut.lower, cut.upper)):
        raise Refusal(NO_FORM)
    places = f"{scope.torch}.arange({cut.whole}.size({cut.dim}), device={cut.whole}.device)"
    tests = [f"{places} >= {_operand(scope, cut.lower)}"] if cut.lower is not None else []
    tests += [f"{places} < {_operand(scope, cut.upper)}"] if cut.upper is not None else []
    mask = _spread(" & ".join(f"({test})" for test in tests) if len(tests) > 1 else tests[0], cut)
    count = _count(scope, cut) if attribute.attr == "mean" else ""
    edits: list[rw.Change] = [(cut.node, f"{scope.torch}.where({mask}, {cut.whole}, 0)")]
    if count:
        summed, number = rw.attribute(rw.kept(scope.file, cut.node), "sum"), rw.expression(count)
        edits += [(attribute, summed), (reduction, lambda old: rw.operation(old, "/", number))]
    bounds = " and ".join(scope.quote(bound) for bound in (cut.lower, cut.upper) if bound is not None)
    return Sliced(edits, [OTHER_ORDER], [f"{bounds} {'is' if len(tests) == 1 else 'are'} not negative", *conditions])


def _count(scope: Scope, cut: _Cut) -> str:
    """How many elements of the dimension are within the bounds."""
    size = f"{cut.whole}.size({cut.dim})"
    if cut.lower is not None and cut.upper is not None:
        raise Refusal(NO_FORM)
    if cut.lower is not None:
        return f"({size} - {atom(cut.lower, scope.text(cut.lower))}).clamp(min=0)"
    assert cut.upper is not None
    return f"{atom(cut.upper, scope.text(cut.upper))}.clamp(max={size})"


def _operand(scope: Scope, bound: ast.expr) -> str:
    text = scope.text(bound)
    return text if isinstance(bound, ast.BinOp) else atom(bound, text)


def _spread(mask: str, cut: _Cut) -> str:
    """Give a mask of one dimension as many behind it as the tensor has."""
    if cut.rank is None:
        return f"({mask}).view(-1, *[1] * ({cut.whole}.dim() - {cut.dim + 1}))"
    behind = cut.rank - cut.dim - 1
    return f"({mask})[:{', None' * behind}]" if behind > 0 else mask


def _is_over(reduction: ast.Call, dim: int) -> bool | None:
    """Whether a reduction is over this dimension alone; False if over all, None if it leaves the dimension."""
    if not reduction.args and not reduction.keywords:
        return False
    given = [*reduction.args[:1], *(keyword.value for keyword in reduction.keywords if keyword.arg == "dim")]
    known = all(keyword.arg in ("dim", "keepdim") for keyword in reduction.keywords)
    if len(given) != 1 or len(reduction.args) > 1 or not known or not isinstance(given[0], ast.Constant):
        return None
    return True if given[0].value == dim and type(given[0].value) is int else None
