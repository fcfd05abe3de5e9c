"""The kinds of operator results."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dynalint.analysis import kinds as k
from dynalint.analysis.kinds import UNKNOWN, DType, Kind, join_all
from dynalint.analysis.ranks import broadcast

# Up to this many repetitions, the kind of each item is known by position. Beyond that, only the join of all items is
# known.
_MOST_REPEATED = 16
_DTYPE_RANK: dict[str, int] = {"bool": 0, "int": 1, "float": 2, "complex": 3}
_LOGICAL = (ast.BitAnd, ast.BitOr, ast.BitXor)
_NUMBERS = ("bool", "int", "float", "complex")
_FOLDED: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def unary(op: ast.unaryop, operand: Kind) -> Kind:
    """Return the kind of `-x`, `+x` or `~x`."""
    results: list[Kind] = []
    for one in k.present(operand).members:
        if isinstance(one, k.Tensor):
            # `~` is rarely applied to integers, so its operand is treated as a mask.
            dtype = "bool" if isinstance(op, ast.Invert) and one.dtype is None else one.dtype
            results.append(k.Tensor(dtype, one.rank, array=one.array, foreseen=one.foreseen))
        elif isinstance(one, k.Unknown):
            results.append(one)
        elif isinstance(one, k.Value) and one.type in _NUMBERS:
            value = one.constant
            known = isinstance(op, ast.USub) and isinstance(value, (int, float)) and not isinstance(value, bool)
            type_ = "int" if one.type == "bool" else one.type
            results.append(k.Value(type_, -value if known else k.MISSING, one.source))
        else:
            return UNKNOWN
    return join_all(results)


@lru_cache(maxsize=4096)
def binary(op: ast.operator, left: Kind, right: Kind) -> Kind:
    """Return the kind of `left op right`."""
    left, right = k.present(left), k.present(right)
    results = [_binary(op, one, other) for one in left.members for other in right.members]
    return join_all(results) if results else UNKNOWN


def _are_types(kind: Kind) -> bool:
    """Return whether this is a class or a union of classes."""
    if isinstance(kind, k.Sequence):
        return kind.type == "tuple" and bool(kind.items) and all(map(_are_types, kind.items or ()))
    return isinstance(kind, (k.Class, k.External))


def _binary(op: ast.operator, left: Kind, right: Kind) -> Kind:
    if isinstance(left, k.Tensor) or isinstance(right, k.Tensor):
        several = repeated(op, left, right)
        return _tensor_binary(op, left, right) if several is None else k.Sequence(several.type, several.element)
    if isinstance(left, k.Unknown) or isinstance(right, k.Unknown):
        return _still_unknown(left, right, compared=isinstance(op, _LOGICAL))
    if isinstance(left, k.Value) and isinstance(right, k.Value):
        if left.type in _NUMBERS and right.type in _NUMBERS:
            return _number_binary(op, left, right)
        return k.STR if "str" in (left.type, right.type) else UNKNOWN
    if isinstance(left, k.Sequence) and isinstance(right, k.Sequence) and isinstance(op, ast.Add):
        if left.items is not None and right.items is not None:
            return k.sequence(left.type, [*left.items, *right.items])
        return k.Sequence(left.type, k.join(left.element, right.element))
    if isinstance(op, ast.BitOr) and _are_types(left) and _are_types(right):
        both = [item for one in (left, right) for item in (one.items or () if isinstance(one, k.Sequence) else (one,))]
        return k.sequence("tuple", both)  # for `isinstance`, a tuple has the same meaning
    if isinstance(op, ast.Mult):
        for container, times in ((left, right), (right, left)):
            if isinstance(container, k.Sequence) and isinstance(times, k.Value):
                known = isinstance(times.constant, int) and container.items is not None
                few = known and times.constant in range(_MOST_REPEATED + 1)
                items = list(container.items or ()) * times.constant if few else None
                return k.sequence(container.type, items) if items else k.Sequence(container.type, container.element)
    return UNKNOWN


def repeated(op: ast.operator, left: Kind, right: Kind) -> k.Sequence | None:
    """Return the list or tuple that `[0] * t` creates, where the one-element tensor `t` is the number of copies."""
    for one, other in ((left, right), (right, left)):
        if isinstance(op, ast.Mult) and isinstance(one, k.Sequence) and one.type in ("list", "tuple"):
            times = k.only_tensor(other)
            return one if times is not None and not times.array else None
    return None


def _tensor_binary(op: ast.operator, left: Kind, right: Kind) -> Kind:
    """Return the result of an operator with a tensor and an operand that is valid, so not None or a container."""
    dtypes = [_dtype(side) for side in (left, right)]
    rank = None if isinstance(op, ast.MatMult) else broadcast((left, right))
    array = all(isinstance(side, k.Value) or (isinstance(side, k.Tensor) and side.array) for side in (left, right))
    left_dtype, right_dtype = dtypes
    dtype: DType | None = None
    if isinstance(op, ast.Div):
        dtype = "complex" if "complex" in dtypes else "float" if None not in dtypes else None
    elif left_dtype is not None and right_dtype is not None:
        dtype = left_dtype if _DTYPE_RANK[left_dtype] >= _DTYPE_RANK[right_dtype] else right_dtype
    elif isinstance(op, _LOGICAL) and "bool" in dtypes:
        dtype = "bool"  # masks are hardly ever combined with anything else
    return k.Tensor(dtype, rank, array=array, foreseen=_foreseen(left) and _foreseen(right))


def _foreseen(kind: Kind) -> bool:
    return kind.foreseen if isinstance(kind, k.Tensor) else isinstance(kind, k.Value)


def _dtype(kind: Kind) -> DType | None:
    if isinstance(kind, k.Tensor):
        return kind.dtype
    if isinstance(kind, k.Value) and kind.type in _DTYPE_RANK:
        return kind.type  # type: ignore[return-value]
    return None


def _number_binary(op: ast.operator, left: k.Value, right: k.Value) -> Kind:
    source = left.source if k.SOURCE_RANK[left.source] >= k.SOURCE_RANK[right.source] else right.source
    if isinstance(op, ast.Div):
        return k.Value("float", k.MISSING, source)
    type_ = max(left.type, right.type, key=_NUMBERS.index)
    type_ = "int" if type_ == "bool" and not isinstance(op, _LOGICAL) else type_
    if type_ == "bool" and isinstance(op, (ast.BitOr, ast.BitAnd)):
        decisive = isinstance(op, ast.BitOr)
        if decisive in (left.constant, right.constant):
            return k.Value("bool", decisive, source)
    fold = _FOLDED.get(type(op))
    if fold is not None and left.constant is not k.MISSING and right.constant is not k.MISSING:
        try:
            value = fold(left.constant, right.constant)
        except (ArithmeticError, TypeError, ValueError):
            return k.Value(type_, k.MISSING, source)
        if type(value) is float or abs(value) < 10**9:
            return k.Value(type(value).__name__, value, source)
    return k.Value(type_, k.MISSING, source)


@lru_cache(maxsize=4096)
def compare(op: ast.cmpop, left: Kind, right: Kind) -> Kind:
    """Return the kind of `left op right` for a comparison."""
    if isinstance(op, (ast.Is, ast.IsNot)):
        same = _identical(left, right)
        return k.BOOL if same is None else k.Value("bool", same is isinstance(op, ast.Is))
    if isinstance(op, (ast.In, ast.NotIn)):
        return _membership(op, left, right)
    # The mask in `mask != 0` is assumed not to be None, because code that expects None tests for it explicitly.
    left = k.present(left) if k.may_be_tensor(left) and right != k.NONE else left
    right = k.present(right) if k.may_be_tensor(right) and left != k.NONE else right
    results = [_compare(op, one, other) for one in left.members for other in right.members]
    return join_all(results) if results else k.BOOL


def _compare(op: ast.cmpop, left: Kind, right: Kind) -> Kind:
    tensors = [side for side in (left, right) if isinstance(side, k.Tensor)]
    if tensors:
        others = [side for side in (left, right) if not isinstance(side, k.Tensor)]
        if others and isinstance(others[0], k.Value) and others[0].type not in _NUMBERS:
            return k.BOOL  # `t == None` and `t == "auto"` do not compare element by element
        array = all(side.array for side in tensors)
        foreseen = _foreseen(left) and _foreseen(right)
        return k.Tensor("bool", broadcast((left, right)), array=array, foreseen=foreseen)
    if isinstance(left, k.Value) and isinstance(right, k.Value):
        fold = _FOLDED.get(type(op))
        source = left.source if k.SOURCE_RANK[left.source] >= k.SOURCE_RANK[right.source] else right.source
        if fold is not None and left.constant is not k.MISSING and right.constant is not k.MISSING:
            try:
                return k.Value("bool", bool(fold(left.constant, right.constant)), source)
            except TypeError:
                return k.BOOL
        if isinstance(op, (ast.Eq, ast.NotEq)) and "none" in (left.type, right.type) and left.type != right.type:
            return k.Value("bool", isinstance(op, ast.NotEq))
        return k.Value("bool", k.MISSING, source)
    if isinstance(left, k.Unknown) or isinstance(right, k.Unknown):
        return replace(_still_unknown(left, right), compared=True)
    return k.BOOL


def _still_unknown(left: Kind, right: Kind, *, compared: bool = False) -> k.Unknown:
    """Return the result of arithmetic on an unknown value. That on a parameter is a tensor only if the parameter is.

    `compared` is true for an operation that combines masks into a mask.
    """
    for one, other in ((left, right), (right, left)):
        if isinstance(one, k.Unknown) and one.parameter is not None and isinstance(other, (k.Value, k.Unknown)):
            return replace(one, compared=compared and one.compared)
    masks = compared and any(isinstance(one, k.Unknown) and one.compared for one in (left, right))
    return replace(UNKNOWN, compared=True) if masks else UNKNOWN


def _identical(left: Kind, right: Kind) -> bool | None:
    """Return whether two values are the same object, which may be known if one of them is None or a tensor."""
    for one, other in ((left, right), (right, left)):
        if other == k.NONE:
            if one == k.NONE:
                return True
            if not isinstance(one, (k.Unknown, k.Nothing)) and k.NONE not in one.members:
                return False
    if isinstance(left, k.Value) and isinstance(right, k.Value) and "bool" == left.type == right.type:
        known = left.constant is not k.MISSING and right.constant is not k.MISSING
        return bool(left.constant == right.constant) if known else None
    return None


def _membership(op: ast.cmpop, left: Kind, right: Kind) -> Kind:
    if isinstance(left, k.Value) and left.constant is not k.MISSING and isinstance(right, k.Sequence) and right.items:
        constants = [item.constant for item in right.items if isinstance(item, k.Value)]
        if len(constants) == len(right.items) and k.MISSING not in constants and right.home is None:
            return k.Value("bool", (left.constant in constants) is isinstance(op, ast.In))
    return k.BOOL
