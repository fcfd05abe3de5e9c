"""Clamp the tested value of a branch that scales a tensor, so that the scale is 1 where the branch is not taken.

if norm > bound:                    x = x * (bound / norm.clamp(min=bound))
    x = x * (bound / norm)

if peak > 1.0:                      x = x / peak.clamp(min=1.0)
    x = x / peak
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from dynalint.rulekit import Refusal, Rewrite, k, rw
from dynalint_rules._code.effects import effects_of_always
from dynalint_rules._code.names import is_named
from dynalint_rules._code.saved_tensors import switch_conditions
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.blocks import is_elif, split_test, statements_after
from dynalint_rules._shared.branch.branch_values import SAME_FORM
from dynalint_rules._shared.branch.choice import finished
from dynalint_rules._shared.branch.truth import truth_of
from dynalint_rules._shared.text import atom, held_together

_TITLE = "Clamp the tested value, so that the branch changes nothing where it was not taken"
_BOUNDS: dict[type[ast.cmpop], str] = {ast.Gt: "min", ast.GtE: "min", ast.Lt: "max", ast.LtE: "max"}
_OTHER = {"min": "max", "max": "min"}


@dataclass(frozen=True)
class _Test:
    """A comparison of `value` with `bound`. Clamping the value at its `side` gives the bound if the test is false."""

    value: ast.expr
    bound: ast.expr
    side: str


@dataclass(frozen=True)
class _Clipped:
    """A scaled value with the tested value clamped, and the conditions under which it can always be used."""

    text: str
    conditions: list[str]


def rewrite_clipped(scope: Scope, statement: ast.If, longer: Callable[[], Rewrite]) -> Rewrite | None:
    """Return the rewrite of a branch that only scales a tensor by a ratio of the compared values, or None.

    `longer` returns the rewrite with `torch.where`, which is needed if a bound is not positive.
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
        clamped = f"{atom(place, scope.text(place))}.clamp({one.side}={scope.text(one.bound)})"
        conditions = [*truth_of(scope, test).selecting_conditions, SAME_FORM]
        if not isinstance(one.bound, ast.Constant):
            conditions.append(f"{scope.quote(one.bound)} is positive")
        if isinstance(kept, ast.Name):
            conditions += switch_conditions(scope, kept.id, value)
            conditions.append(f"no code relies on receiving the tensor `{kept.id}` itself instead of an equal copy")
        return _Clipped(rw.spliced(scope.file, value, {place: clamped}), conditions)
    return None


def _tests(scope: Scope, test: ast.expr) -> Iterator[_Test]:
    """Yield both ways to read a comparison."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _BOUNDS:
        side, left, right = _BOUNDS[type(test.ops[0])], test.left, test.comparators[0]
        for one in (_Test(left, right, side), _Test(right, left, _OTHER[side])):
            known = scope.tensor(one.bound) is not None or k.is_number(scope.kind(one.bound))
            if scope.tensor(one.value) is not None and known:
                yield one


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
    return places[0] if fits else None


def _factors(node: ast.expr, above: list[ast.expr], below: list[ast.expr]) -> None:
    """Add the factors of a product or quotient to `above`, and those that it is divided by to `below`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        _factors(node.left, above, below)
        divided = isinstance(node.op, ast.Div)
        _factors(node.right, below if divided else above, above if divided else below)
    else:
        above.append(node)
