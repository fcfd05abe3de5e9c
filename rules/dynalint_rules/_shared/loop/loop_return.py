"""A `return` under a tensor in a loop: all rounds run, and the first result is kept.

    for layer in self.layers:            returned = early = None
        x = layer(x)                     for layer in self.layers:
        if x.max() > 9:                      x = layer(x)
            return x / 2                     result = x / 2
    return x                                 early = result if early is None else torch.where(returned, early, result)
                                             condition = x.max() > 9
                                             returned = condition if returned is None else returned | condition
                                         if early is None:
                                             return x
                                         return torch.where(returned, early, x)

Whether there is a result at all is no question of data: how many rounds a loop has is known. Where the same is returned
after the last round, it is `early` whatever the mask says.
"""

from __future__ import annotations

import ast

from dynalint.rulekit import Refusal, Rewrite, rw, walk
from dynalint_rules._code.effects import effects_of_always
from dynalint_rules._code.names import is_bound_before
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.blocks import statements_after
from dynalint_rules._shared.branch.choice import TITLE, escaped, finished, rendered, require_tensors
from dynalint_rules._shared.branch.domain import guarded_operands
from dynalint_rules._shared.branch.early_return import choose_at_returns
from dynalint_rules._shared.branch.returned import Place, lasting, place_of, returning
from dynalint_rules._shared.branch.sides import Side, gradient_conditions, reads_of, tensor_conditions
from dynalint_rules._shared.branch.truth import truth_of
from dynalint_rules._shared.text import held_together


def rewrite_loop_return(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of `if test: return value` in a loop, None if it is something else.

    Raises:
        Refusal: it would not do the same.
    """
    value = returning(scope, statement)
    if value is None:
        return None
    place, parts = place_of(scope, statement), parts_of(value)
    for node in walk(value):
        if isinstance(node, ast.Lambda):
            raise Refusal(f"{scope.quote(node)} may run later, when its names have other values")
    for name in {node.id for node in walk(value) if isinstance(node, ast.Name)} & scope.function.locals:
        if not is_bound_before(scope, name, statement):
            raise Refusal(f"`{name}` may have no value yet; assign it before the test")
    layers = effects_of_always(scope, [statement.test, value], statement).layers
    early: list[str] = []
    for _ in parts:
        early.append(scope.fresh_name("early", early))
    mask, condition = scope.fresh_name("returned"), scope.fresh_name("condition")
    truth = truth_of(scope, statement.test)
    conditions = list(truth.conditions)
    lines = [f"{condition} = {held_together(truth.without_dimensions)}"]
    guard = f"{scope.torch}.where({escaped(condition)}, {{operand}}, {{safe}})"
    for name, part in zip(early, parts, strict=True):
        text = lasting(scope, part, rendered(scope, part, guarded_operands(scope, part), guard), statement)
        if not text.isidentifier():
            result = scope.fresh_name("result", [line.partition(" ")[0] for line in lines])
            lines.append(f"{result} = {held_together(text)}")
            text = result
        sides = [Side(part, scope.kind(part))]
        conditions += [*require_tensors(scope, sides), *tensor_conditions(scope, sides)]
        lines.append(f"{name} = {text} if {name} is None else {scope.torch}.where({mask}, {name}, {text})")
    lines.append(f"{mask} = {condition} if {mask} is None else {mask} | {condition}")
    conditions += gradient_conditions([set(), reads_of(scope, Side(value, scope.kind(value)), statement)], layers)
    later: list[rw.Change] = []
    last = _same_at_last(scope, statement, value, place)
    if last is not None and last.value is not None:
        later.append((last.value, ", ".join(early)))
    else:
        later, more = choose_at_returns(scope, statement, place.after, value, mask, early)
        conditions += more
    made = f"{' = '.join([mask, *early])} = None"
    edits = rw.written(scope.file, (place.anchor, [made, place.anchor]), (statement, lines), *later)
    return finished(scope, TITLE, edits, conditions)


def _same_at_last(scope: Scope, statement: ast.If, value: ast.expr, place: Place) -> ast.Return | None:
    """Return the `return` after a loop of what its last round would have returned, None if it is anything else.

    Without a round that has no value.
    """
    loop, after = place.anchor, place.after[-1:]
    ends = isinstance(loop, ast.For) and loop.body[-1] is statement and statements_after(scope, loop) == after
    if not ends or not isinstance(after[0], ast.Return) or after[0].value is None:
        return None
    names = {node.id for node in walk(value) if isinstance(node, ast.Name)} & scope.function.locals
    made = any(not is_bound_before(scope, name, loop) for name in names)
    return after[0] if made and ast.dump(after[0].value) == ast.dump(value) else None


def parts_of(value: ast.expr) -> list[ast.expr]:
    """Return the parts of a tuple that is written out, or the value alone."""
    return list(value.elts) if isinstance(value, ast.Tuple) else [value]
