"""A `break` under a tensor: the loop runs all its rounds, and a mask keeps what there was when it would have ended."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from dynalint.rulekit import Refusal, Rewrite, k, rw, walk
from dynalint_rules._code.effects import effects_of, effects_of_always
from dynalint_rules._code.names import is_bound_before, kind_of_name, loads, within
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.blocks import Assignment, block_of, statements_after
from dynalint_rules._shared.branch.choice import GUARD_ORDERS, escaped, finished, rendered, require_tensors
from dynalint_rules._shared.branch.domain import guarded_operands
from dynalint_rules._shared.branch.sides import (
    FINITE,
    NO_RAISE,
    SAME_FORM,
    Side,
    alias_conditions,
    gradient_conditions,
    reads_of,
)
from dynalint_rules._shared.branch.sizes import refuse_other_sizes
from dynalint_rules._shared.branch.truth import truth_of
from dynalint_rules._shared.text import held_together

_TITLE = "Run all iterations and keep finished results with `torch.where`"
_UNROLLED = frozenset({"builtins.range", "builtins.enumerate", "builtins.zip", "builtins.reversed"})


def rewrite_break(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of a loop that `if test: break` ends, None if the `if` does something else.

    Raises:
        Refusal: it would not do the same.
    """
    loop = scope.parents.get(statement)
    if not isinstance(loop, ast.For) or statement not in loop.body or statement.orelse or len(statement.body) != 1:
        return None
    if isinstance(statement.body[0], ast.Break):
        return _DoneMask(scope, loop, statement).rewrite()
    if not _is_as_good_as_break(scope, loop, statement):
        return None
    try:
        return _DoneMask(scope, loop, statement).rewrite()
    except Refusal:
        return None


def _is_as_good_as_break(scope: Scope, loop: ast.For, statement: ast.If) -> bool:
    """Whether a round ends in the `return` of a name that is returned right after the loop as well."""
    leaving, after = statement.body[0], statements_after(scope, loop)[:1]
    named = isinstance(leaving, ast.Return) and isinstance(leaving.value, ast.Name)
    same = [ast.dump(one) for one in after] == [ast.dump(leaving)]
    return named and same and loop.body[-1] is statement and scope.parents.get(loop) is scope.function.node


@dataclass
class _DoneMask:
    """The loop, and what is found out while it is written anew. `done` is the name of the mask."""

    scope: Scope
    loop: ast.For
    statement: ast.If
    done: str = "done"
    conditions: list[str] = field(default_factory=list)
    changes: list[rw.Change] = field(default_factory=list)

    def rewrite(self) -> Rewrite:
        scope, loop = self.scope, self.loop
        self._check_loop()
        position = loop.body.index(self.statement)
        before, after = block_of(scope, loop.body[:position]), block_of(scope, loop.body[position + 1 :])
        if before.result is not None or after.result is not None:
            raise Refusal("the loop returns from the function as well; return after the loop")
        assignments = [*before.assignments, *after.assignments]
        layers = effects_of_always(scope, [one.written for one in assignments], loop).layers
        effects_of(scope, [self.statement.test])
        self.done = scope.fresh_name("done")
        kept = [one for one in assignments if self._outlives_round(one.name)]
        if not kept:
            raise Refusal("no tensor outlives an iteration of the loop; run it without the test by hand")
        self._write_test()
        for one in assignments:
            self._write(one, kept=one in kept)
        mask = f"{self.done} = {scope.torch}.zeros((), dtype={scope.torch}.bool, device={kept[0].name}.device)"
        self.changes.append((loop, [mask, loop]))
        sides = [Side(one.value, scope.kind(one.value)) for one in assignments]
        reads = set().union(*(reads_of(scope, side, loop) for side in sides)) - {one.name for one in assignments}
        self.conditions += gradient_conditions([set(), reads], layers)
        return finished(scope, _TITLE, rw.written(scope.file, *self.changes), self.conditions)

    def _check_loop(self) -> None:
        scope, loop = self.scope, self.loop
        if loop.orelse:
            raise Refusal(
                "the `else` of the loop depends on whether it was left by `break`; write that out with a mask"
            )
        rounds = scope.kind(loop.iter.func) if isinstance(loop.iter, ast.Call) else scope.kind(loop.iter)
        known = isinstance(rounds, k.Sequence | k.Object | k.Instance)
        if not known and not (isinstance(rounds, k.External) and rounds.name in _UNROLLED):
            raise Refusal(
                f"dynalint cannot tell that {scope.quote(loop.iter)} has the same length in every call; run a "
                "fixed number of iterations and keep a `done` mask for `torch.where`"
            )
        effects_of(scope, [loop.iter])
        targets = [node.id for node in walk(loop.target) if isinstance(node, ast.Name)]
        for name in targets:
            if any(not within(node, loop, scope) for node in loads(scope, name)):
                raise Refusal(
                    f"`{name}` shows after the loop in which iteration it ended; keep that with `torch.where`"
                )

    def _outlives_round(self, name: str) -> bool:
        """Whether a name is read after the loop, or in a round before it is assigned there."""
        scope, loop = self.scope, self.loop
        if is_bound_before(scope, name, loop):
            return True
        if any(not within(node, loop, scope) for node in loads(scope, name)):
            raise Refusal(f"`{name}` gets its first value in the loop; assign it before the loop")
        return False

    def _write_test(self) -> None:
        truth = truth_of(self.scope, self.statement.test)
        self.conditions += truth.conditions
        text = truth.without_dimensions
        operand = text if truth.atomic or text != truth.text else f"({text})"
        self.changes.append((self.statement, [f"{self.done} = {held_together(f'{self.done} | {operand}')}"]))

    def _write(self, one: Assignment, *, kept: bool) -> None:
        """Have an assignment keep the old value once the loop is done; what does not outlive a round may stay."""
        scope, file = self.scope, self.scope.file
        if one.operator is not None or not isinstance(one.statement, ast.Assign | ast.AnnAssign):
            raise Refusal(f"{scope.quote(one.statement)} works in place; write it as an assignment first")
        if isinstance(one.statement, ast.Assign) and isinstance(one.statement.targets[0], ast.Tuple):
            raise Refusal(f"{scope.quote(one.statement)} assigns to several names at once; assign them one by one")
        guards = guarded_operands(scope, one.value)
        order = GUARD_ORDERS[1]
        text = rendered(scope, one.value, guards, f"{scope.torch}.where({escaped(self.done)}, {order})")
        if kept:
            sides = [
                Side(None, kind_of_name(scope, one.name, self.loop), one.name),
                Side(one.value, scope.kind(one.value)),
            ]
            self.conditions += require_tensors(scope, sides)
            refuse_other_sizes(scope, sides)
            self.conditions += [SAME_FORM, NO_RAISE, FINITE]
            self.conditions += alias_conditions(scope, sides, one.name, self.loop)
            text = f"{scope.torch}.where({self.done}, {one.name}, {text})"
        if text != file.segment(one.value):
            self.changes.append((one.value, text))
