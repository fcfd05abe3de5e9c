"""Between which numbers the elements of a tensor lie, whatever a function is given: `x.relu()` is never negative.

NaN lies between none, and no comparison but `!=` holds of it. So one that no number in between passes never holds.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dynalint.analysis import kinds as k
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.leaving import leaves_alone
from dynalint_rules._shared.names import before, sets, statement_of, value_for
from dynalint_rules._shared.scope import Scope

_DEEPEST = 12
# Of numbers in code, which are rounded when they meet a tensor, and of functions; half precision has none as small.
_ROUNDED = 0.01
_SMALL = 6.2e-5
# Not `float` and `double`: they leave out the imaginary part of what may be larger for it.
_MOVED = frozenset("detach clone contiguous reshape t flatten squeeze unsqueeze permute transpose expand".split())
_EXTREMES = frozenset("amax amin max min".split())
# These give what they are given, an integer for integers.
_SAME = _MOVED | _EXTREMES | {"view", "relu", "abs", "absolute", "sum"}
_SHARES = frozenset("sigmoid softmax rand rand_like".split())
_WAVES = frozenset("tanh sin cos".split())
_NOT_BELOW_ZERO = frozenset("abs absolute norm sqrt std var".split())
# These take floats alone, or give floats: nothing overflows to the other sign.
_OF_FLOATS = frozenset("mean norm std var".split())
_TO_FLOATS = _OF_FLOATS | {"sqrt"}


@dataclass(frozen=True)
class Bounds:
    """The least and the largest number that an element may be."""

    low: float = -math.inf
    high: float = math.inf

    @property
    def signs(self) -> Bounds:
        """What is known of a sum of such numbers, be it of none, and of their mean."""
        return Bounds(0.0 if self.low >= 0 else -math.inf, 0.0 if self.high <= 0 else math.inf)


_ANY, _NOT_NEGATIVE = Bounds(), Bounds(low=0.0)


@dataclass(frozen=True)
class _Reader:
    """What bounds are read in; with `presumed`, tensors of an unknown dtype are taken for floats, and noted there."""

    scope: Scope
    presumed: dict[str, None] | None = None

    def is_float(self, node: ast.expr) -> bool:
        tensor = self.scope.tensor(node)
        return tensor is not None and (tensor.dtype == "float" or self.presumes(node))

    def presumes(self, node: ast.expr) -> bool:
        tensor = self.scope.tensor(node)
        return self.presumed is not None and tensor is not None and tensor.dtype is None

    def bounds(self, node: ast.expr, floats: bool, depth: int) -> Bounds:
        """Return the bounds of an expression; with `floats`, it is known to give floats."""
        noted: dict[str, None] = {}
        bounds = _bounds(replace(self, presumed=noted) if self.presumed is not None else self, node, floats, depth)
        if self.presumed is not None and bounds != _ANY:
            # That of a result follows from that of what it is computed from.
            self.presumed.update(noted or ({self.scope.quote(node): None} if self.presumes(node) else {}))
        return bounds


def never_holds(scope: Scope, test: ast.expr) -> bool:
    """Whether a test is false for every input, NaN and tensors without elements included."""
    return _never_holds(_Reader(scope), test)


def never_holds_of_floats(scope: Scope, test: ast.expr) -> list[str] | None:
    """Return what has to be floats, quoted, for a test to be false for every input; None if it may be true of them."""
    presumed: dict[str, None] = {}
    return list(presumed) if _never_holds(_Reader(scope, presumed), test) else None


def _never_holds(reader: _Reader, test: ast.expr) -> bool:
    scope = reader.scope
    if isinstance(test, ast.Name):
        given = _value(scope, test) if scope.tensor(test) is not None else None
        return given is not None and _never_holds(reader, given)
    if isinstance(test, ast.Call) and _name(scope, test) == "any":
        asked = _operand(scope, test)
        return asked is not None and scope.tensor(asked) is not None and _never_holds(reader, asked)
    if not isinstance(test, ast.Compare):
        return False
    operands = [test.left, *test.comparators]
    if not all(_is_met_as_it_is(number) or _are_floats(reader, operands) for number in map(_number, operands)):
        return False
    bounds = [reader.bounds(one, False, 0) for one in operands]
    return any(_never(op, *pair) for op, *pair in zip(test.ops, bounds, bounds[1:], strict=False))


def _is_met_as_it_is(number: float | None) -> bool:
    """Whether a number is itself in a comparison with any tensor: an integer becomes one of 8 bits."""
    return number is None or not number.is_integer() or 0 <= number < 128


def _are_floats(reader: _Reader, operands: Sequence[ast.expr]) -> bool:
    called = (isinstance(one, ast.Call) and _name(reader.scope, one) in _TO_FLOATS for one in operands)
    return any(called) or any(reader.is_float(one) for one in operands)


def _never(op: ast.cmpop, left: Bounds, right: Bounds) -> bool:
    if isinstance(op, ast.Lt):
        return left.low >= right.high
    if isinstance(op, ast.Gt):
        return left.high <= right.low
    is_above, is_below = (_down(one.low) > _up(other.high) for one, other in ((left, right), (right, left)))
    if isinstance(op, ast.Eq):
        return is_above or is_below
    return is_above if isinstance(op, ast.LtE) else isinstance(op, ast.GtE) and is_below


def _down(number: float) -> float:
    """Return what a number is not below once it is rounded; zero is not rounded."""
    return 0.0 if 0 <= number < _SMALL else number - max(abs(number) * _ROUNDED, _SMALL)


def _up(number: float) -> float:
    return -_down(-number)


def _bounds(reader: _Reader, node: ast.expr, floats: bool, depth: int) -> Bounds:
    if (number := _number(node)) is not None:
        return Bounds(number, number)
    if depth > _DEEPEST or reader.scope.tensor(node) is None:
        return _ANY
    floats = floats or reader.is_float(node)
    if isinstance(node, ast.Name):
        found = _value(reader.scope, node)
        return reader.bounds(found, floats, depth + 1) if found is not None else _ANY
    if isinstance(node, ast.Subscript):
        return reader.bounds(node.value, floats, depth + 1)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and floats:
        inner = reader.bounds(node.operand, floats, depth + 1)
        return Bounds(-inner.high, -inner.low)
    if isinstance(node, ast.BinOp):
        return _of_operator(reader, node, floats, depth)
    return _of_call(reader, node, floats, depth) if isinstance(node, ast.Call) else _ANY


def _value(scope: Scope, name: ast.Name) -> ast.expr | None:
    """Return what a name was given in any case, if nothing has been changed in place since."""
    here = statement_of(scope, name)
    # Of a compound statement, only the test has run.
    passed: list[ast.AST] = [getattr(here, "test", here)]
    for one in before(scope, name.id, here):
        value = value_for(one, name.id)
        if value is not None or sets(one, name.id):
            around = [node for node in _around(scope, here) if one.lineno < node.lineno]
            return value if value is not None and leaves_alone(scope, [*passed, *around], ()) else None
        passed.append(one)
    return None


def _around(scope: Scope, node: ast.AST) -> Iterator[ast.stmt | ast.expr]:
    """Yield what may have run before a place that stands in it: tests, and all of what may run more than once."""
    while node is not scope.function.node:
        node = scope.parents[node]
        if isinstance(node, ast.If):
            yield node.test
        elif isinstance(node, ast.stmt):
            yield node


def _of_operator(reader: _Reader, node: ast.BinOp, floats: bool, depth: int) -> Bounds:
    power = _number(node.right) if isinstance(node.op, ast.Pow) else None
    if power is not None:
        return _NOT_NEGATIVE if 0 < power < 1 or (floats and power > 0 and power % 2 == 0) else _ANY
    if not floats:
        return _ANY
    if isinstance(node.left, ast.Name) and isinstance(node.right, ast.Name) and node.left.id == node.right.id:
        same = {ast.Sub: Bounds(0.0, 0.0), ast.Div: Bounds(1.0, 1.0), ast.Mult: _NOT_NEGATIVE}.get(type(node.op))
        if same is not None:
            return same
    # Whole numbers may be added to floats after they overflowed.
    left, right = (reader.bounds(one, False, depth + 1).signs for one in (node.left, node.right))
    if isinstance(node.op, ast.Add):
        return Bounds(left.low + right.low, left.high + right.high)
    return _NOT_NEGATIVE if isinstance(node.op, ast.Mult) and left.low == right.low == 0 else _ANY


def _of_call(reader: _Reader, node: ast.Call, floats: bool, depth: int) -> Bounds:
    scope = reader.scope
    name, operand = _name(scope, node), _operand(scope, node)
    if name in _SHARES:
        return Bounds(0.0, 1.0)
    if name in _WAVES:
        return Bounds(-1.0, 1.0)
    if operand is None or any(one.arg in ("dtype", "out", None) for one in node.keywords):
        return _ANY
    inner = reader.bounds(operand, name in _OF_FLOATS or (floats and name in _SAME), depth + 1)
    others = [one for one in (*node.args, *(given.value for given in node.keywords)) if one is not operand]
    moved = name in _MOVED or (name == "view" and all(_number(one) is not None for one in others))
    if moved or (name in _EXTREMES and not any(scope.tensor(one) is not None for one in others)):
        return inner
    if name == "mean" or (name == "sum" and (floats or reader.is_float(operand))):
        return inner.signs
    if name == "relu":
        return Bounds(max(inner.low, 0.0), max(inner.high, 0.0))
    if name == "exp":
        return Bounds(low=1.0 - _ROUNDED if inner.low >= 0 else 0.0)
    if name in _NOT_BELOW_ZERO and (floats or name in _TO_FLOATS):
        return _NOT_NEGATIVE
    return _clamped(node, operand, name, inner)


def _clamped(node: ast.Call, operand: ast.expr, name: str, inner: Bounds) -> Bounds:
    """Return the bounds of what `clamp` or one of its kind gives, with one limit that is a number."""
    order = {"clamp": ("min", "max"), "clip": ("min", "max"), "clamp_min": ("min",), "clamp_max": ("max",)}.get(name)
    if order is None:
        return _ANY
    positions = [one for one in node.args if one is not operand]
    given: dict[str | None, ast.expr] = dict(zip(order, positions, strict=False))
    given.update((one.arg, one.value) for one in node.keywords)
    limits = {key: _number(value) for key, value in given.items()}
    if (low := limits.get("min")) is not None and len(limits) == 1:
        return Bounds(low=max(inner.low, _down(low)))
    if (high := limits.get("max")) is not None and len(limits) == 1:
        return Bounds(high=min(inner.high, _up(high)))
    return _ANY


def _name(scope: Scope, node: ast.Call) -> str:
    """Return the last name of the method of a tensor, or the function of torch, that a call calls; "" for others."""
    name = callee(scope, node)
    return name.rpartition(".")[2] if name.startswith(("Tensor.", "torch.")) else ""


def _operand(scope: Scope, node: ast.Call) -> ast.expr | None:
    """Return the tensor that a call is about."""
    if isinstance(node.func, ast.Attribute) and isinstance(scope.kind(node.func), k.Method):
        return node.func.value
    return node.args[0] if node.args else None


def _number(node: ast.expr) -> float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    value = node.value if isinstance(node, ast.Constant) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
