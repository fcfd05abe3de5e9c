"""Rewrite a data-dependent `return` in a loop, so that all iterations run and the first result is kept.

                                         returned = None
    for layer in self.layers:            early = x
        x = layer(x)                     for layer in self.layers:
        if x.max() > 9:                      x = layer(x)
            return x                         early = x if returned is None else torch.where(returned, early, x)
    return x                                 condition = x.max() > 9
                                             returned = condition if returned is None else returned | condition
                                         return early

The value returned after the last iteration is the same, so the result is `early` in any case.
"""

from __future__ import annotations

import ast

from dynalint.rulekit import Refusal, Rewrite, k, rw, walk
from dynalint_rules._code.effects import effects_of, effects_of_always
from dynalint_rules._code.names import is_bound_before
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.blocks import is_elif, statements_after
from dynalint_rules._shared.branch.branch_values import FOR_TENSORS, BranchValue, gradient_conditions, reads_of
from dynalint_rules._shared.branch.choice import TITLE, escaped, finished, rendered, require_tensors
from dynalint_rules._shared.branch.domain import guarded_operands
from dynalint_rules._shared.branch.early_return import check_rest, lasting, parts_of, stands_in_branches
from dynalint_rules._shared.branch.truth import truth_of
from dynalint_rules._shared.text import held_together

_UNROLLED = frozenset({"builtins.range", "builtins.enumerate", "builtins.zip", "builtins.reversed"})


def rewrite_loop_return(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of `if test: return value` in a loop, or None for any other statement."""
    value, loop = _returning(statement), scope.parents[statement]
    if value is None or not isinstance(loop, ast.For) or is_elif(scope, statement):
        return None
    last, parts = _same_at_last(scope, statement, value, loop), parts_of(value)
    if last is None:
        raise Refusal("the loop may end without this result; assign it to a variable, and return that after the loop")
    check_rounds(scope, loop)
    check_rest(scope, statement, [one for one in loop.body if one is not statement])
    for node in walk(value):
        if isinstance(node, ast.Lambda):
            raise Refusal(f"{scope.quote(node)} may run later, when its variables have different values")
    for name in {node.id for node in walk(value) if isinstance(node, ast.Name)} & scope.function.locals:
        if not is_bound_before(scope, name, statement):
            raise Refusal(f"`{name}` may not have a value yet; assign it before the test")
    layers = effects_of_always(scope, [statement.test, value], statement).layers
    early: list[str] = []
    for _ in parts:
        early.append(scope.fresh_name("early", early))
    mask, condition = scope.fresh_name("returned"), scope.fresh_name("condition")
    truth = truth_of(scope, statement.test)
    conditions = list(truth.selecting_conditions)
    lines = [f"{condition} = {held_together(truth.without_dimensions)}"]
    guard = f"{scope.torch}.where({escaped(condition)}, {{operand}}, {{safe}})"
    for name, part in zip(early, parts, strict=True):
        text = lasting(scope, part, rendered(scope, part, guarded_operands(scope, part), guard), statement)
        if not text.isidentifier():
            result = scope.fresh_name("result", [line.partition(" ")[0] for line in lines])
            lines.append(f"{result} = {held_together(text)}")
            text = result
        sides = [BranchValue(part, scope.kind(part))]
        conditions += [*require_tensors(scope, sides), *FOR_TENSORS]
        lines.append(f"{name} = {text} if {mask} is None else {scope.torch}.where({mask}, {name}, {text})")
    lines.append(f"{mask} = {condition} if {mask} is None else {mask} | {condition}")
    conditions += gradient_conditions(
        [set(), reads_of(scope, BranchValue(value, scope.kind(value)), statement)], layers
    )
    before = _before(scope, parts, early, mask, loop)
    edits = rw.written(scope.file, (loop, [*before, loop]), (statement, lines), (last, ", ".join(early)))
    return finished(scope, TITLE, edits, conditions)


def _returning(statement: ast.If) -> ast.expr | None:
    """Return the value of `if test: return value`, or None for any other statement."""
    only = statement.body[0] if len(statement.body) == 1 and not statement.orelse else None
    return only.value if isinstance(only, ast.Return) else None


def _same_at_last(scope: Scope, statement: ast.If, value: ast.expr, loop: ast.For) -> ast.expr | None:
    """Return the value returned after a loop if the last iteration would have returned the same value, or None."""
    after = statements_after(scope, loop)
    if loop.body[-1] is not statement or len(after) != 1 or not isinstance(after[0], ast.Return):
        return None
    result = after[0].value
    return result if result is not None and ast.dump(result) == ast.dump(value) else None


def _before(scope: Scope, parts: list[ast.expr], early: list[str], mask: str, loop: ast.For) -> list[str]:
    """Return the lines to put before a loop to assign the result of zero iterations, or None if it has no value.

    Raises:
        Refusal: If the result contains anything other than the values of names.
    """
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    read = {node.id for part in parts for node in walk(part) if isinstance(node, ast.Name)} & scope.function.locals
    if any(not is_bound_before(scope, name, loop) for name in read):
        return [f"{' = '.join([mask, *early])} = None"]
    if len(names) != len(parts):
        raise Refusal("the result is computed from values before the loop; assign it to a variable inside the loop")
    return [f"{mask} = None", *(f"{new} = {name}" for new, name in zip(early, names, strict=True))]


def check_rounds(scope: Scope, loop: ast.For) -> None:
    """Ensure that all iterations of a loop can run, and that their number is the same whenever a graph is called."""
    rounds = scope.kind(loop.iter.func) if isinstance(loop.iter, ast.Call) else scope.kind(loop.iter)
    known = isinstance(rounds, k.Sequence | k.Object | k.Instance)
    known = known or (isinstance(rounds, k.External) and rounds.name in _UNROLLED)
    if loop.orelse or not known or not stands_in_branches(scope, loop):
        raise Refusal(f"{scope.quote(loop.iter)} may have a different length on other calls; return after the loop")
    effects_of(scope, [loop.iter])
