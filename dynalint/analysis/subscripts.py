"""The kind of `base[index]`, and the effect of assigning to it."""

from __future__ import annotations

import ast
from dataclasses import replace

from dynalint.analysis import kinds as k
from dynalint.analysis.dispatch import evaluate, evaluates
from dynalint.analysis.dunders import call_special
from dynalint.analysis.events import Subscript
from dynalint.analysis.frame import Frame
from dynalint.analysis.kinds import UNKNOWN, Kind, join, join_all
from dynalint.analysis.ranks import indexed
from dynalint.analysis.steps import walk

_MODULE_LISTS = ("torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ParameterList")


@evaluates(ast.Subscript)
def _subscript(frame: Frame, node: ast.Subscript) -> Kind:
    """Return the kind of an element or slice."""
    base, index = taken_apart(frame, node)
    note_index(frame, node, base, index, "load")
    kind = join_all([element_at(frame, one, node.slice, index) for one in k.present(base).members])
    # `isinstance(xs[0], list)` shows that other calls pass something else.
    return kind if not isinstance(kind, k.Unknown) or _is_tested(node, frame.calling) else frame.shown(kind)


def _is_tested(node: ast.Subscript, call: ast.Call | None) -> bool:
    """Return whether a call is `isinstance` with this expression as its first argument."""
    named = call is not None and isinstance(call.func, ast.Name) and call.func.id == "isinstance"
    return named and call is not None and call.args[:1] == [node]


def taken_apart(frame: Frame, node: ast.Subscript) -> tuple[Kind, Kind]:
    """Return the kinds of the base and the index. A base whose index is only valid for tensors is a tensor."""
    base, index = evaluate(frame, node.value), _index_of(frame, node.slice)
    of_tensors = _only_tensors_take(node.slice) or is_mask(index) or _has_rows(index)
    base = _indexable(base, not_by_place=of_tensors or _is_text(index))
    if isinstance(base, k.Unknown) and (of_tensors or _compares(frame, node)):
        frame.note_tensor(node.value, base)
        base = k.TENSOR
    if isinstance(index, k.Unknown) and (
        isinstance(node.slice, ast.Compare) or index.compared or _is_mask_given(node, index)
    ):
        # `x[labels >= 0]` selects with a mask, because a comparison of two numbers is not used as a position.
        of_parameters = isinstance(base, k.Unknown) and None not in (base.parameter, index.parameter)
        if isinstance(base, k.Tensor) or of_parameters:
            frame.note_tensor(node.slice, index)
            frame.note_tensor(node.value, base)
            base, index = base if isinstance(base, k.Tensor) else k.TENSOR, k.BOOL_TENSOR
    return base, index


def _index_of(frame: Frame, node: ast.expr) -> Kind:
    """Return the kind of an index, in which tensors of unknown dtype are masks if their names end with `mask`."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    record = frame.record if frame.record is not None else {}
    before = {part: record.get(part, k.NOTHING) for part in parts if _is_named_mask(part)}
    index = evaluate(frame, node)
    if not before or (isinstance(node, ast.Tuple) and len(getattr(index, "items", None) or ()) != len(parts)):
        return index
    kinds = list(index.items or ()) if isinstance(node, ast.Tuple) and isinstance(index, k.Sequence) else [index]
    for at, part in enumerate(parts):
        tensor = k.only_tensor(kinds[at]) if part in before else None
        if tensor is not None and tensor.dtype is None:
            kinds[at] = replace(tensor, dtype="bool")
            record[part] = join(before[part], kinds[at])  # other calls of the function may show the dtype
    if isinstance(node, ast.Tuple):
        return replace(index, items=tuple(kinds)) if isinstance(index, k.Sequence) else index
    return kinds[0]


def _is_named_mask(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.lower().endswith("mask")


def _is_mask_given(node: ast.Subscript, index: k.Unknown) -> bool:
    """Return whether an index is a parameter with the name of a mask."""
    return index.parameter is not None and not index.is_element and _is_named_mask(node.slice)


def _indexable(base: Kind, *, not_by_place: bool) -> Kind:
    """Return the alternatives that can be indexed: no numbers, and lists and tuples only by position."""
    if not isinstance(base, k.Union):
        return base
    raising = (k.Value, k.Sequence) if not_by_place else k.Value
    kept = [one for one in base.alternatives if not isinstance(one, raising) or one == k.NONE or _is_text(one)]
    return k.rejoined(base, kept) if any(one != k.NONE for one in kept) else base


def _is_text(kind: Kind) -> bool:
    return isinstance(kind, k.Value) and kind.type in ("str", "bytes")


def note_index(frame: Frame, node: ast.Subscript, base: Kind, index: Kind, context: str) -> None:
    """Emit an event if the index contains a tensor or a number read from one."""
    if any(_from_tensor(part) for part in index_parts(index)):
        frame.emit(Subscript, node, extra=context, base=base, index=index, context=context)


def index_parts(index: Kind) -> list[Kind]:
    """Return the individual indices and slice bounds in an index."""
    parts: list[Kind] = []
    for one in index.members:
        if isinstance(one, k.Sequence) and one.type in ("slice", "tuple"):
            for item in one.items if one.items is not None else (one.element,):
                parts += index_parts(item)
        else:
            parts.append(one)
    return parts


def is_mask(index: Kind) -> bool:
    """Return whether an index definitely selects by a bool tensor or a list of bools."""
    return any(_selects(part) for part in index_parts(index))


def _selects(part: Kind) -> bool:
    tensor = k.only_tensor(part)
    return tensor.dtype == "bool" if tensor is not None else _is_bool_list(part)


def _is_bool_list(part: Kind) -> bool:
    if not isinstance(part, k.Sequence) or part.type != "list":
        return False
    return all(isinstance(one, k.Value) and one.type == "bool" for one in part.element.members)


def _from_tensor(kind: Kind) -> bool:
    return isinstance(kind, k.Tensor) or (isinstance(kind, k.Value) and kind.source == "data") or _is_bool_list(kind)


def _only_tensors_take(node: ast.expr) -> bool:
    """Return whether only tensors and arrays support an index of this form: `[:, 0]`, `[..., 1]`, `[None]`."""
    if isinstance(node, ast.Tuple):
        return any(
            isinstance(element, ast.Slice) or (isinstance(element, ast.Constant) and element.value in (None, ...))
            for element in node.elts
        )
    return isinstance(node, ast.Constant) and node.value in (None, ...)


def _has_rows(index: Kind) -> bool:
    """Return whether an index covers more than one dimension and contains a tensor, as in `x[rows, columns]`."""
    several = index.items if isinstance(index, k.Sequence) and index.type == "tuple" else None
    return len(several or ()) > 1 and any(k.only_tensor(one) is not None for one in several or ())


def _compares(frame: Frame, node: ast.Subscript) -> bool:
    """Return whether a variable is indexed by a comparison of itself, as in `x[x > 0]` or `seen = x > 0; x[seen]`."""
    index: ast.expr | None = node.slice
    if isinstance(index, ast.Name):
        kind = frame.env.get(index.id)
        index = _only_value(frame, index.id) if isinstance(kind, k.Unknown) and kind.compared else None
    if not isinstance(index, ast.Compare):
        return False
    return ast.dump(node.value) in [ast.dump(side) for side in (index.left, *index.comparators)]


def _only_value(frame: Frame, name: str) -> ast.expr | None:
    """Return what a function assigns to a variable that it binds only once, or None."""
    nodes = list(walk(frame.function.node)) if frame.function is not None else []
    bound = [one for one in nodes if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store)]
    values = (one.value for one in nodes if isinstance(one, ast.Assign) and one.targets == bound)
    return next(values, None)


def element_at(frame: Frame, base: Kind, node: ast.expr, index: Kind) -> Kind:
    """Return the kind of `base[index]` for one of the base's alternatives."""
    if isinstance(base, k.Tensor):
        return _of_tensor(base, index)
    if isinstance(base, k.Sequence):
        return k.held_in(base, _of_sequence(base, node, index))
    if isinstance(base, k.Dictionary):
        if isinstance(index, k.Value) and index.constant is not k.MISSING:
            known = base.get(index.constant)
            if known is not None:
                return k.held_in(base, known)
            # If the code does not store anything under this key, other code has stored its value.
            return UNKNOWN if isinstance(base.rest, k.Nothing) else k.held_in(base, base.rest)
        return UNKNOWN if isinstance(base.value, k.Nothing) else k.held_in(base, base.value)
    if isinstance(base, k.Unknown) and not isinstance(node, ast.Slice):
        constant = index.constant if isinstance(index, k.Value) else k.MISSING
        return base.element(repr(constant) if isinstance(constant, (int, str)) else "")
    if isinstance(base, k.Instance):
        return call_special(frame, base, "__getitem__", [index]) or UNKNOWN
    if isinstance(base, k.Class) and not any(
        name.startswith("enum.") for name in frame.interpreter.project.lineage(base.cls)[1]
    ):
        return base  # a generic class with type arguments, `Base[T]`
    return k.STR if isinstance(base, k.Value) and base.type == "str" else UNKNOWN


def _of_tensor(base: k.Tensor, index: Kind) -> Kind:
    """Return the kind of an element or view of a tensor."""
    parts = index.items if isinstance(index, k.Sequence) and index.type == "tuple" else (index,)
    rank = None if base.rank is None or parts is None else indexed(base.rank, parts)
    return k.Tensor(base.dtype, rank, array=base.array, foreseen=base.foreseen)


def _of_sequence(base: k.Sequence, node: ast.expr, index: Kind) -> Kind:
    if isinstance(node, ast.Slice):
        return _sliced(base, index)
    position = index.constant if isinstance(index, k.Value) else None
    if isinstance(position, int) and base.items is not None and -len(base.items) <= position < len(base.items):
        return base.items[position]
    if isinstance(index, k.Sequence) and index.type == "slice":
        return k.Sequence(base.type, base.element)
    return UNKNOWN if isinstance(base.element, k.Nothing) else base.element


def _sliced(base: k.Sequence, index: Kind) -> Kind:
    type_ = "torch.nn.ModuleList" if base.type in _MODULE_LISTS else base.type
    if base.items is not None and isinstance(index, k.Sequence) and index.items is not None:
        bounds = [bound.constant if isinstance(bound, k.Value) else k.MISSING for bound in index.items]
        # If a slice has only one bound, as in `[n:]` or `[:n]`, its items only have the same kind if all items do.
        plain = len(bounds) == 1 and isinstance(bounds[0], int) and type_ in ("list", "tuple")
        if plain and all(item == base.items[0] for item in base.items):
            return k.Sequence(type_, base.element)
    return k.Sequence(type_, UNKNOWN if isinstance(base.element, k.Nothing) else base.element)
