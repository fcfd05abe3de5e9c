"""A `return` under a tensor in a loop: all rounds run, and the first result is kept.

    for layer in self.layers:            returned = torch.zeros((), dtype=torch.bool, device=x.device)
        x = layer(x)                     early = None
        if x.max() > 9:                  for layer in self.layers:
            return x / 2                     x = layer(x)
    return x                                 condition = ~returned & (x.max() > 9)
                                             result = x / 2
                                             early = result if early is None else torch.where(returned, early, result)
                                             returned = returned | condition
                                         if early is None:
                                             return x
                                         return torch.where(returned, early, x)

The mask is a tensor from the beginning on. Whether there is a result at all is no question of data: how many rounds a
loop has is known.
"""

from __future__ import annotations

import ast

from dynalint import rewriting as rw
from dynalint.analysis.steps import walk
from dynalint.rules import Refusal, Rewrite
from dynalint_rules._code.effects import effects_of_always
from dynalint_rules._code.names import is_bound_before
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.choice import TITLE, escaped, finished, rendered, require_tensors
from dynalint_rules._shared.branch.domain import guarded_operands
from dynalint_rules._shared.branch.early_return import choose_at_returns
from dynalint_rules._shared.branch.returned import lasting, opened, place_of, returning
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
            raise Refusal(f"{scope.quote(node)} may run later, when its names mean something else")
    for name in {node.id for node in walk(value) if isinstance(node, ast.Name)} & scope.function.locals:
        if not is_bound_before(scope, name, statement):
            raise Refusal(f"`{name}` may have no value yet; give it one before the test")
    layers = effects_of_always(scope, [statement.test, value], statement).layers
    early: list[str] = []
    for _ in parts:
        early.append(scope.fresh_name("early", early))
    mask, condition = scope.fresh_name("returned"), scope.fresh_name("condition")
    made, conditions = opened(scope, place.anchor, mask, early)
    truth = truth_of(scope, statement.test)
    conditions += truth.conditions
    lines = [f"{condition} = ~{mask} & {truth.operand if truth.scalar else truth.without_dimensions}"]
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
    lines.append(f"{mask} = {mask} | {condition}")
    conditions += gradient_conditions([set(), reads_of(scope, Side(value, scope.kind(value)), statement)], layers)
    later, more = choose_at_returns(scope, statement, place.after, value, mask, early)
    edits = rw.written(scope.file, (place.anchor, [*made, place.anchor]), (statement, lines), *later)
    return finished(scope, TITLE, edits, [*conditions, *more])


def parts_of(value: ast.expr) -> list[ast.expr]:
    """Return the parts of a tuple that is written out, or the value alone."""
    return list(value.elts) if isinstance(value, ast.Tuple) else [value]
