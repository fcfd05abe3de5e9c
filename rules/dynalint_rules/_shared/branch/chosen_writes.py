"""Rewrite a branch that only writes to tensors of the module, so that every call writes selected values instead.

if self.ready:                              center = x.mean(0)
    return                                  self.center.copy_(torch.where(self.ready, self.center, center))
center = x.mean(0)                          self.ready.fill_(True)
self.center.copy_(center)
self.ready.fill_(True)
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dynalint.rulekit import Refusal, Rewrite, k, rw
from dynalint_rules._code.effects import effects_of_always
from dynalint_rules._code.precision import is_short
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.blocks import is_elif, split_test, statements_after
from dynalint_rules._shared.branch.branch_values import NO_RAISE
from dynalint_rules._shared.branch.choice import finished
from dynalint_rules._shared.branch.module_writes import Side, Write, is_float, side_of
from dynalint_rules._shared.branch.truth import truth_of

_TITLE = "Write the result of `torch.where` on every call"


def rewrite_writes(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of an `if` whose branches only write to tensors of the module, or None for any other `if`.

    Raises:
        Refusal: If a value must not be computed on every call.
    """
    while is_elif(scope, statement) and isinstance(around := scope.parents[statement], ast.If):
        statement = around  # the whole chain becomes one assignment
    bodies, run = [statement.body, statement.orelse], list[ast.stmt]([statement])
    if _leaves(statement.body) and not statement.orelse and scope.parents[statement] is scope.function.node:
        rest = statements_after(scope, statement)
        bodies, run = [statement.body[:-1], rest[:-1] if rest and _leaves(rest) else rest], [statement, *rest]
    one, other = (side_of(scope, body, statement) for body in bodies)
    if one is None or other is None:
        return None
    if not one.target_names() and not other.target_names():
        return None
    python, test = split_test(scope, statement)
    if python is not None:
        return None
    effects_of_always(scope, [*one.values, *other.values], statement)
    found = _written(_Writer(scope, test, one, other), run)
    updates = [step for side in (one, other) for step in side.writes() if step.sign]
    rounded = [f"`{step.target}` is not more precise than float32" for step in updates if _is_rounded(scope, step)]
    if not rounded:
        return found
    # In bfloat16, adding a number rounds it first, and adding a tensor does not.
    found = replace(found, conditions=(*dict.fromkeys(rounded), *found.conditions))
    return replace(found, otherwise=_written(_Writer(scope, test, one.plain(), other.plain()), run))


def _written(writer: _Writer, run: Sequence[ast.stmt]) -> Rewrite:
    lines = writer.lines()
    conditions = [
        *writer.conditions,
        *writer.one.conditions,
        *writer.other.conditions,
        NO_RAISE,
        "no code relies on detecting writes that leave a tensor unchanged",
    ]
    return finished(writer.scope, _TITLE, rw.written(writer.scope.file, (run, lines)), conditions)


def _leaves(body: Sequence[ast.stmt]) -> bool:
    """Return whether a path ends with a `return` without a value."""
    last = body[-1]
    return isinstance(last, ast.Return) and (last.value is None or ast.unparse(last.value) == "None")


def _is_rounded(scope: Scope, update: Write) -> bool:
    """Return whether an update has a number that narrow dtypes may not be able to represent."""
    value = update.statement.value if isinstance(update.statement, ast.AugAssign) else None
    return value is not None and is_float(scope, value) and not is_short(scope.kind(value))


@dataclass
class _Writer:
    """Writes the statements that replace both paths. `one` is selected if `test` is true, and `other` if not."""

    scope: Scope
    test: ast.expr
    one: Side
    other: Side
    conditions: list[str] = field(default_factory=list)
    condition: str = ""
    negated: bool = False

    def lines(self) -> list[str | ast.stmt]:
        """Return the lines.

        Raises:
            Refusal: If the branches write to the same tensors in a different order.
        """
        return [*self._test(), *self._steps()]

    def _test(self) -> list[str]:
        """Return the assignment of the test to a name. There is none if the test is a flag that is written last."""
        flag = self.test
        while isinstance(flag, ast.UnaryOp) and isinstance(flag.op, ast.Not):
            flag, self.negated = flag.operand, not self.negated
        tensor = self.scope.tensor(flag)
        sides = (self.one, self.other)
        early = {name for side in sides for name in side.target_names()[:-1]}
        early |= {step.tensor for side in sides for step in side.writes() if step.tensor != step.target}
        if isinstance(flag, ast.Attribute) and tensor is not None and tensor.dtype == "bool":
            self.condition = self.scope.text(flag)
            if self.condition not in early:
                return []
        self.negated = False
        truth = truth_of(self.scope, self.test)
        self.conditions += truth.selecting_conditions
        if len({*self.one.target_names(), *self.other.target_names()}) == 1:
            self.condition = truth.without_dimensions
            return []
        self.condition = self.scope.fresh_name("condition")
        own = truth.without_dimensions
        own += ".clone()" if own == self.scope.text(self.test) and isinstance(self.test, ast.Attribute) else ""
        return [f"{self.condition} = {own}"]

    def _steps(self) -> list[str | ast.stmt]:
        rest = list(self.other.steps)
        found: list[str | ast.stmt] = []
        for step in self.one.steps:
            counterpart = None
            if isinstance(step, Write) and step.target in [one.target for one in rest if isinstance(one, Write)]:
                while counterpart is None:
                    ahead = rest.pop(0)
                    if isinstance(ahead, Write) and ahead.target == step.target:
                        counterpart = ahead
                    else:
                        found.append(self._step(None, ahead))
            found.append(self._step(step, counterpart))
        for one in rest:
            if isinstance(one, Write) and one.target in self.one.target_names():
                raise Refusal(
                    f"the branches write to `{one.target}` in a different order; write out the new value of "
                    "each tensor instead"
                )
        return [*found, *(self._step(None, one) for one in rest)]

    def _step(self, one: object, other: object) -> str | ast.stmt:
        """Return the line for a step of one or both paths."""
        step = one if one is not None else other
        if isinstance(step, ast.Assign):
            return step
        assert isinstance(step, Write)
        if isinstance(one, Write) and isinstance(other, Write):
            first, last = one.value, other.value
            if first == last and type(one.statement) is type(other.statement):
                return self.scope.text(one.statement)
            if (updated := self._updated(one, other)) is not None:
                return updated
            given = [side.statement.value for side in (one, other) if isinstance(side.statement, ast.Assign)]
            if len(given) == 2 and all(is_float(self.scope, value) for value in given):
                raise Refusal(f"`{step.target}` may be more precise than `torch.where` of two numbers; write it out")
            if bool(one.owner) != bool(other.owner) or (one.number and other.number):
                raise Refusal(f"`{step.target}` is written in two ways that cannot be combined; write it out instead")
        elif step.target == self.condition and self._stays_so(step, taken=one is not None):
            return self.scope.text(step.statement)
        elif step.number:
            plain = self.condition if self.condition.isidentifier() else f"({self.condition})"
            test = self.condition if (one is not None) != self.negated else f"~{plain}"
            return f"{step.owner}.masked_fill_({test}, {step.value})"
        else:
            new, kept = (step.operand, step.neutral) if step.sign else (step.value, step.kept or step.target)
            first, last = (new, kept) if one is not None else (kept, new)
        if self.negated:
            first, last = last, first
        chosen = f"{self.scope.torch}.where({self.condition}, {first}, {last})"
        if step.sign and None in (one, other):
            return f"{step.owner} {step.sign}= {chosen}"
        whole = step.owner and step.tensor == step.target
        return f"{step.owner}.copy_({chosen})" if whole else f"{step.target} = {chosen}"

    def _updated(self, one: Write, other: Write) -> str | None:
        """Return the line for two updates of the same tensor, as in `t += torch.where(test, 1, -1)`, or None."""
        signs = {one.sign, other.sign}
        values = [side.statement.value for side in (one, other) if isinstance(side.statement, ast.AugAssign)]
        if len({k.is_number(self.scope.kind(value)) for value in values}) > 1:
            return None  # the number would be rounded to the tensor's dtype, such as bfloat16 under autocast
        if "" in signs or (len(signs) > 1 and not self._are_added(one, other)):
            return None
        sign = "+" if len(signs) > 1 else one.sign
        first, last = (side.operand if side.sign == sign else f"-{side.factor}" for side in (one, other))
        if self.negated:
            first, last = last, first
        return f"{one.owner} {sign}= {self.scope.torch}.where({self.condition}, {first}, {last})"

    def _are_added(self, *updates: Write) -> bool:
        """Return whether all updates add or subtract numbers or floats. Subtracting unsigned integers is not adding."""
        values = [one.statement.value for one in updates if isinstance(one.statement, ast.AugAssign)]
        signed = all(k.is_number(self.scope.kind(one)) or self.scope.dtype(one) == "float" for one in values)
        return signed and {one.sign for one in updates} <= {"+", "-"}

    def _stays_so(self, step: Write, *, taken: bool) -> bool:
        """Return whether a flag is set to the value that it already has on the other path."""
        wanted = "True" if taken == self.negated else "False"
        values = (wanted, "1" if wanted == "True" else "0", f"{self.scope.torch}.tensor({wanted})")
        return step.value in values
