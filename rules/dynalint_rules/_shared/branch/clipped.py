"""Bound the tested value of a branch that scales a tensor, so that the scale is 1 where the branch is not taken.

if norm >= 5:                       x = x * (5 / norm.clamp(min=5))
    x = x * (5 / norm)

if peak > 1.0:                      x = x / torch.where(peak > 1.0, peak, 1.0)
    x = x / peak

`clamp` passes the gradient at the bound, where a strict comparison does not take the branch.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeGuard

from dynalint.rulekit import Refusal, Rewrite, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.effects import effects_of_always
from dynalint_rules._code.names import is_named, only_value
from dynalint_rules._code.saved_tensors import switch_conditions
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.blocks import is_elif, split_test, statements_after
from dynalint_rules._shared.branch.branch_values import SAME_FORM
from dynalint_rules._shared.branch.choice import finished
from dynalint_rules._shared.branch.truth import truth_of
from dynalint_rules._shared.text import atom, held_together

_TITLE = "Bound the tested value, so that the branch changes nothing where it was not taken"
# Functions whose results are numbers for all numbers, and have finite gradients next to any positive bound.
_TAME = frozenset("norm vector_norm matrix_norm max amax min amin sum abs square clamp detach".split())
_LONGEST_REPEATED_TEST = 40
_BOUNDS: dict[type[ast.cmpop], str] = {ast.Gt: "min", ast.GtE: "min", ast.Lt: "max", ast.LtE: "max"}
_OTHER = {"min": "max", "max": "min"}


@dataclass(frozen=True)
class _Test:
    """A comparison of `value` with `bound`. Clamping the value at its `side` gives the bound if the test is false.

    If the comparison is `strict`, the test is false at the bound.
    """

    value: ast.expr
    bound: ast.Constant
    side: str
    strict: bool


@dataclass(frozen=True)
class _Clipped:
    """A scaled value with the tested value clamped, and the conditions under which it can always be used."""

    text: str
    conditions: list[str]


def rewrite_clipped(scope: Scope, statement: ast.If, longer: Callable[[], Rewrite]) -> Rewrite | None:
    """Return the rewrite of a branch that only scales a tensor by a ratio of the compared values, or None.

    `longer` returns the rewrite that selects between both values.
    """
    (first, *more), after = statement.body, statements_after(scope, statement)
    if scope.careful or more or statement.orelse or is_elif(scope, statement):
        return None
    python, test = split_test(scope, statement)
    value: ast.expr | None = None
    kept: ast.expr | None = None
    run: list[ast.stmt] = [statement]
    if isinstance(first, ast.Assign) and len(first.targets) == 1:
        value, kept = first.value, first.targets[0]
    elif isinstance(first, ast.Return) and after and isinstance(after[0], ast.Return) and python is None:
        value, kept, run = first.value, after[0].value, [statement, after[0]]
    if value is None or not isinstance(kept, ast.Name):
        return None
    found = _clipped(scope, test, value, kept)
    if found is None:
        return None
    head = "return" if isinstance(first, ast.Return) else f"{kept.id} ="
    line = f"{head} {held_together(found.text)}"
    lines = [line] if python is None else [f"if {python}:", f"    {line}"]
    return _finished(scope, (run, lines), found.conditions, longer)


def rewrite_clipped_expression(scope: Scope, node: ast.IfExp, longer: Callable[[], Rewrite]) -> Rewrite | None:
    """Return the rewrite of `x * (bound / n) if n > bound else x`, or of `bound / n if n > bound else 1`, or None."""
    found = None if scope.careful else _clipped(scope, node.test, node.body, node.orelse)
    return None if found is None else _finished(scope, (node, found.text), found.conditions, longer)


def _finished(scope: Scope, change: rw.Change, conditions: list[str], longer: Callable[[], Rewrite]) -> Rewrite:
    short = finished(scope, _TITLE, rw.written(scope.file, change), conditions)
    try:
        return replace(short, otherwise=longer())
    except Refusal:
        return short


def _clipped(scope: Scope, test: ast.expr, value: ast.expr, kept: ast.expr) -> _Clipped | None:
    """Return a product or quotient with the tested value clamped, if it is then `kept` where the test is false."""
    is_one = isinstance(kept, ast.Constant) and kept.value == 1
    if not is_one and (not isinstance(kept, ast.Name) or scope.tensor(value) is None):
        return None
    for one in _tests(scope, test):
        place = _tested_factor(value, kept, one)
        if place is None or truth_of(scope, test).scalar is False:
            continue
        effects_of_always(scope, [value], test)
        text, bound = scope.text(place), scope.text(one.bound)
        clamped = f"{atom(place, text)}.clamp({one.side}={bound})"
        if one.strict:
            clamped = f"{scope.torch}.where({scope.text(test)}, {text}, {bound})"
        conditions = [*truth_of(scope, test).selecting_conditions, SAME_FORM]
        if isinstance(kept, ast.Name):
            conditions += switch_conditions(scope, kept.id, value)
            conditions.append(f"no code relies on receiving the tensor `{kept.id}` itself instead of an equal copy")
        return _Clipped(rw.spliced(scope.file, value, {place: clamped}), conditions)
    return None


def _tests(scope: Scope, test: ast.expr) -> Iterator[_Test]:
    """Yield both ways to read a comparison."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _BOUNDS:
        side, left, right = _BOUNDS[type(test.ops[0])], test.left, test.comparators[0]
        strict = isinstance(test.ops[0], ast.Gt | ast.Lt)
        if strict and len(scope.text(test)) > _LONGEST_REPEATED_TEST:
            return
        for value, bound, bounded in ((left, right, side), (right, left, _OTHER[side])):
            if _is_positive(bound) and _is_tame(scope, value):
                yield _Test(value, bound, bounded, strict)


def _is_positive(bound: ast.expr) -> TypeGuard[ast.Constant]:
    """Return whether a bound is a positive number. Zero and infinity, which are common defaults, have no ratio."""
    value = bound.value if isinstance(bound, ast.Constant) else None
    return isinstance(value, int | float) and 0 < value < math.inf


def _is_tame(scope: Scope, value: ast.expr) -> bool:
    """Return whether a tested value is a number for all inputs, unlike a quotient or the deviation of one element."""
    if isinstance(value, ast.Name):
        known = only_value(scope, value.id, value)
        return scope.tensor(value) is not None and (known is None or _is_tame(scope, known))
    if isinstance(value, ast.Subscript | ast.Attribute):
        return scope.tensor(value) is not None
    calls = [one for one in walk(value) if isinstance(one, ast.Call)]
    divides = any(isinstance(one, ast.Div | ast.Pow) for one in walk(value))
    return bool(calls) and not divides and all(callee(scope, one).rpartition(".")[2] in _TAME for one in calls)


def _tested_factor(value: ast.expr, kept: ast.expr, test: _Test) -> ast.expr | None:
    """Return the place of the tested value in a product that equals `kept` if the tested value equals the bound."""
    above: list[ast.expr] = []
    below: list[ast.expr] = []
    _factors(value, above, below)
    own = [one for one in above if isinstance(kept, ast.Name) and is_named(one, kept.id)]
    places = [one for one in (*above, *below) if one not in own and ast.dump(one) == ast.dump(test.value)]
    if len(places) != 1 or len(own) != int(isinstance(kept, ast.Name)):
        return None
    others = [one for one in (*above, *below) if one not in (*own, *places)]
    if isinstance(test.bound, ast.Constant) and test.bound.value == 1 and not others:
        return places[0]
    opposite = below if places[0] in above else above
    fits = len(others) == 1 and others[0] in opposite and ast.dump(others[0]) == ast.dump(test.bound)
    quotient = isinstance(value, ast.BinOp) and value.right is places[0] and isinstance(value.left, ast.BinOp)
    if quotient:
        return None  # the product in front of the quotient may overflow
    return places[0] if fits else None


def _factors(node: ast.expr, above: list[ast.expr], below: list[ast.expr]) -> None:
    """Add the factors of a product or quotient to `above`, and those that it is divided by to `below`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        _factors(node.left, above, below)
        divided = isinstance(node.op, ast.Div)
        _factors(node.right, below if divided else above, above if divided else below)
    else:
        above.append(node)
