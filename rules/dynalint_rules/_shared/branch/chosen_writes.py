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
from dynalint_rules._code.calls import calls_in_chain
from dynalint_rules._code.changes import related
from dynalint_rules._code.effects import effects_of_always
from dynalint_rules._code.names import names, within
from dynalint_rules._code.precision import is_double, is_short
from dynalint_rules._code.scope import Scope, as_tensor
from dynalint_rules._code.state_creation import registered
from dynalint_rules._code.uses import self_name
from dynalint_rules._shared.branch.blocks import does_nothing, is_elif, split_test, statements_after
from dynalint_rules._shared.branch.branch_values import NO_RAISE
from dynalint_rules._shared.branch.choice import finished
from dynalint_rules._shared.branch.domain import has_gradients
from dynalint_rules._shared.branch.truth import truth_of
from dynalint_rules._shared.number.flow import is_whole
from dynalint_rules._shared.text import atom

_TITLE = "Write the result of `torch.where` on every call"
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_IN_PLACE = frozenset(f"{name}_" for name in "abs add clamp div lerp mul neg sub".split())


@dataclass(frozen=True)
class _Write:
    """A statement that assigns `value` to `target`, by calling a method of `owner` or, if there is none, directly.

    `number` is true if the value is a plain number. `kept` is the text of the existing value if it is not the target's.
    An augmented assignment has a `sign`, the `operand` after it, also as a `factor` with parentheses if it needs some,
    and the `neutral` operand, which changes nothing.
    """

    statement: ast.stmt
    target: str
    owner: str
    value: str
    number: bool = False
    kept: str = ""
    sign: str = ""
    operand: str = ""
    neutral: str = ""
    factor: str = ""

    @property
    def tensor(self) -> str:
        """The text of the tensor, without the index if only some elements are written."""
        return self.target.partition("[")[0]


@dataclass
class _Side:
    """The writes on one path, and the names that only it uses, in order. `values` are the computed expressions."""

    steps: list[_Write | ast.Assign] = field(default_factory=list)
    values: list[ast.expr] = field(default_factory=list)

    def writes(self) -> list[_Write]:
        return [one for one in self.steps if isinstance(one, _Write)]

    def plain(self) -> _Side:
        """Return the same side with augmented assignments as plain ones."""
        steps = [replace(one, sign="") if isinstance(one, _Write) else one for one in self.steps]
        return _Side(steps, self.values)

    def target_names(self) -> list[str]:
        return [one.target for one in self.writes()]


def rewrite_writes(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of an `if` whose branches only write to tensors of the module, or None for any other `if`.

    Raises:
        Refusal: If a value must not be computed on every call.
    """
    if is_elif(scope, statement) or any(is_elif(scope, one) for one in statement.orelse):
        return None
    bodies, run = [statement.body, statement.orelse], list[ast.stmt]([statement])
    if _leaves(statement.body) and not statement.orelse and scope.parents[statement] is scope.function.node:
        rest = statements_after(scope, statement)
        bodies, run = [statement.body[:-1], rest[:-1] if rest and _leaves(rest) else rest], [statement, *rest]
    one, other = (_side_of(scope, body, statement) for body in bodies)
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
        NO_RAISE,
        "no code relies on detecting writes that leave a tensor unchanged",
    ]
    return finished(writer.scope, _TITLE, rw.written(writer.scope.file, (run, lines)), conditions)


def _leaves(body: Sequence[ast.stmt]) -> bool:
    """Return whether a path ends with a `return` without a value."""
    last = body[-1]
    return isinstance(last, ast.Return) and (last.value is None or ast.unparse(last.value) == "None")


def _side_of(scope: Scope, body: Sequence[ast.stmt], statement: ast.If) -> _Side | None:
    """Return what a path does, or None if it does anything other than write."""
    side = _Side()
    for one in body:
        if does_nothing(scope, one):
            continue
        target = one.targets[0] if isinstance(one, ast.Assign) and len(one.targets) == 1 else None
        if isinstance(one, ast.Assign) and isinstance(target, ast.Name):
            side.values.append(one.value)
            if all(any(within(use, part, scope) for part in body) for use in names(scope, target.id)):
                side.steps.append(one)
                continue
            return None
        found = _write_of(scope, one, side)
        if found is None or found.tensor in [step.tensor for step in side.writes()]:
            return None
        side.steps.append(found)
    return side


def _write_of(scope: Scope, statement: ast.stmt, side: _Side) -> _Write | None:
    """Return the write to a tensor of the module that a statement makes, or None if it does anything else."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _called(scope, statement, statement.value, side)
    plain = isinstance(statement, ast.Assign) and len(statement.targets) == 1
    target = statement.targets[0] if isinstance(statement, ast.Assign) and plain else None
    target = statement.target if isinstance(statement, ast.AugAssign) else target
    if target is None or not isinstance(statement, ast.Assign | ast.AugAssign):
        return None
    value, number = statement.value, k.is_number(scope.kind(statement.value))
    tensor = _kept(scope, target.value if isinstance(target, ast.Subscript) else target)
    if tensor is None or tensor.origin == "parameter" or not _fits(scope, tensor, value):
        return None
    if isinstance(target, ast.Subscript):
        scalar = number or (getattr(scope.tensor(value), "rank", None) == 0 and not has_gradients(scope, value))
        # Another tensor may stay on the CPU, where the selected value cannot be stored if the test is on a GPU.
        if tensor.origin != "buffer" or not _is_fixed(scope, target.slice) or not scalar:
            return None
    elif isinstance(statement, ast.Assign) and number:
        return None
    side.values.append(value)
    owner, text = scope.text(target), scope.text(value)
    if isinstance(statement, ast.Assign):
        return _Write(statement, owner, "", text)
    sign = _OPERATORS.get(type(statement.op))
    if sign is None:
        return None
    operand = text if isinstance(value, ast.Constant) else atom(value, text)
    new = f"{owner} {sign} {operand}"
    if _is_float(scope, value) and _may_be_double(scope, target):
        return _Write(statement, owner, owner, new)
    neutral = "0" if sign in ("+", "-") else "1"
    return _Write(statement, owner, owner, new, sign=sign, operand=text, neutral=neutral, factor=operand)


def _is_float(scope: Scope, value: ast.expr) -> bool:
    """Return whether a value is a number that `torch.where` would make a float32 tensor of, whatever it goes into."""
    kind = scope.kind(value)
    return k.is_number(kind) and any(getattr(one, "type", "") not in ("bool", "int") for one in kind.members)


def _is_rounded(scope: Scope, update: _Write) -> bool:
    """Return whether an update has a number that narrow dtypes may not be able to represent."""
    value = update.statement.value if isinstance(update.statement, ast.AugAssign) else None
    return value is not None and _is_float(scope, value) and not is_short(scope.kind(value))


def _may_be_double(scope: Scope, target: ast.expr) -> bool:
    """Return whether a tensor on `self` may have dtype float64, even if the module is not converted."""
    stored = target.value if isinstance(target, ast.Subscript) else target
    owner = scope.function.owner
    assert isinstance(stored, ast.Attribute)
    made = [one for cls in scope.project.mro(owner) for one in registered(cls, stored.attr)] if owner else []
    given = (one.value for value in made if isinstance(value, ast.Call) for one in value.keywords if one.arg == "dtype")
    return not made or any(map(is_double, made)) or not all(isinstance(one, ast.Attribute) for one in given)


def _is_fixed(scope: Scope, index: ast.expr) -> bool:
    """Return whether Python knows the place that an index stands for. A tensor may be valid on one path only."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    slices = [one for one in parts if isinstance(one, ast.Slice)]
    places = [one for one in parts if not isinstance(one, ast.Slice | ast.Constant)]
    places += [bound for one in slices for bound in (one.lower, one.upper, one.step) if bound is not None]
    return all(is_whole(scope.kind(one)) for one in places)


def _called(scope: Scope, statement: ast.Expr, last: ast.Call, side: _Side) -> _Write | None:
    """Return the write that a chain of in-place methods makes."""
    calls = calls_in_chain(last)
    owner = calls[0].func.value if isinstance(calls[0].func, ast.Attribute) else None
    target = owner.value if isinstance(owner, ast.Attribute) and owner.attr == "data" else owner
    tensor = _kept(scope, target) if target is not None else None
    given = [*(one for call in calls for one in call.args), *(one.value for call in calls for one in call.keywords)]
    if owner is None or target is None or tensor is None or not all(_fits(scope, tensor, one) for one in given):
        return None
    is_parameter = tensor.origin == "parameter"
    if is_parameter and owner is target and has_gradients(scope, last):
        return None
    side.values += given
    name, text = scope.text(target), scope.text(owner)
    value = text if is_parameter else name
    steps = [one.func.attr for one in calls if isinstance(one.func, ast.Attribute)]
    if steps in (["copy_"], ["fill_"]) and len(given) == len(last.args) == 1:
        number = k.is_number(scope.kind(given[0]))
        return _Write(statement, name, text, scope.text(given[0]), number=number, kept=value)
    if steps == ["zero_"] and not given:
        return _Write(statement, name, text, "0", number=True)
    kept = value
    for step, one in zip(steps, calls, strict=True):
        parts = [*map(scope.text, one.args), *(f"{each.arg}={scope.text(each.value)}" for each in one.keywords)]
        value = f"{value}.{step.removesuffix('_')}({', '.join(parts)})"
    return _Write(statement, name, text, value, kept=kept) if _IN_PLACE.issuperset(steps) else None


def _fits(scope: Scope, tensor: k.Tensor, value: ast.expr) -> bool:
    """Return whether an existing value stays the same if it is selected over a new value. Floats round integers."""
    kind = scope.kind(value)
    if tensor.dtype in ("float", None) or (k.is_number(kind) and tensor.dtype == "bool"):
        return tensor.dtype is not None
    return all(getattr(one, "dtype", getattr(one, "type", None)) in ("bool", tensor.dtype) for one in kind.members)


def _kept(scope: Scope, node: ast.expr) -> k.Tensor | None:
    """Return the tensor that an expression reads from `self` or stores there, or None."""
    owner = scope.function.owner
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name) or owner is None:
        return None
    if node.value.id != self_name(scope.function):
        return None
    if isinstance(node.ctx, ast.Load):
        return scope.tensor(node)
    project = scope.project
    uses = (one for one in project.attribute_uses(node.attr) if one[1] is not None and one[1].owner is not None)
    found = (
        project.kinds(function).get(read)
        for _, function, read in uses
        if function and related(function.owner, owner, project)
    )
    return next((one for kind in found if kind is not None and (one := as_tensor(kind)) is not None), None)


@dataclass
class _Writer:
    """Writes the statements that replace both paths. `one` is selected if `test` is true, and `other` if not."""

    scope: Scope
    test: ast.expr
    one: _Side
    other: _Side
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
            if isinstance(step, _Write) and step.target in [one.target for one in rest if isinstance(one, _Write)]:
                while counterpart is None:
                    ahead = rest.pop(0)
                    if isinstance(ahead, _Write) and ahead.target == step.target:
                        counterpart = ahead
                    else:
                        found.append(self._step(None, ahead))
            found.append(self._step(step, counterpart))
        for one in rest:
            if isinstance(one, _Write) and one.target in self.one.target_names():
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
        assert isinstance(step, _Write)
        if isinstance(one, _Write) and isinstance(other, _Write):
            first, last = one.value, other.value
            if first == last and type(one.statement) is type(other.statement):
                return self.scope.text(one.statement)
            if (updated := self._updated(one, other)) is not None:
                return updated
            given = [side.statement.value for side in (one, other) if isinstance(side.statement, ast.Assign)]
            if len(given) == 2 and all(_is_float(self.scope, value) for value in given):
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

    def _updated(self, one: _Write, other: _Write) -> str | None:
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

    def _are_added(self, *updates: _Write) -> bool:
        """Return whether all updates add or subtract numbers or floats. Subtracting unsigned integers is not adding."""
        values = [one.statement.value for one in updates if isinstance(one.statement, ast.AugAssign)]
        signed = all(k.is_number(self.scope.kind(one)) or self.scope.dtype(one) == "float" for one in values)
        return signed and {one.sign for one in updates} <= {"+", "-"}

    def _stays_so(self, step: _Write, *, taken: bool) -> bool:
        """Return whether a flag is set to the value that it already has on the other path."""
        wanted = "True" if taken == self.negated else "False"
        values = (wanted, "1" if wanted == "True" else "0", f"{self.scope.torch}.tensor({wanted})")
        return step.value in values
