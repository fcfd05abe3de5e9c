"""What a branch writes to tensors of the module."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dynalint.rulekit import k
from dynalint_rules._code.calls import calls_in_chain
from dynalint_rules._code.changes import related
from dynalint_rules._code.names import names, within
from dynalint_rules._code.precision import is_double
from dynalint_rules._code.scope import Scope, as_tensor
from dynalint_rules._code.state_creation import registered
from dynalint_rules._code.uses import self_name
from dynalint_rules._shared.branch.blocks import does_nothing, split_test
from dynalint_rules._shared.branch.domain import has_gradients
from dynalint_rules._shared.branch.truth import truth_of
from dynalint_rules._shared.number.flow import is_whole
from dynalint_rules._shared.text import atom

_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_IN_PLACE = frozenset(f"{name}_" for name in "abs add clamp div lerp mul neg sub".split())


@dataclass(frozen=True)
class Write:
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
class Side:
    """The writes on one path, and the names that only it uses, in order.

    `values` are the computed expressions, which equal the originals under the `conditions`.
    """

    steps: list[Write | ast.Assign] = field(default_factory=list)
    values: list[ast.expr] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)

    def writes(self) -> list[Write]:
        return [one for one in self.steps if isinstance(one, Write)]

    def plain(self) -> Side:
        """Return the same side with augmented assignments as plain ones."""
        steps = [replace(one, sign="") if isinstance(one, Write) else one for one in self.steps]
        return Side(steps, self.values, self.conditions)

    def target_names(self) -> list[str]:
        return [one.target for one in self.writes()]


def side_of(scope: Scope, body: Sequence[ast.stmt], statement: ast.If) -> Side | None:
    """Return what a path does, or None if it does anything other than write."""
    side = Side()
    if len(body) == 1 and isinstance(body[0], ast.If):
        return _chosen_between(scope, body[0], statement)
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


def _chosen_between(scope: Scope, inner: ast.If, statement: ast.If) -> Side | None:
    """Return what an `elif` does if each of its paths only assigns to the same tensor, or leaves it as it is."""
    sides = [side_of(scope, body, statement) for body in (inner.body, inner.orelse)]
    python, test = split_test(scope, inner)
    if python is not None or any(side is None or len(side.steps) > 1 for side in sides):
        return None
    writes = [next(iter(side.writes()), None) for side in sides if side is not None]
    step = next((one for one in writes if one is not None), None)
    found = [one for one in writes if one is not None]
    if step is None or any(one.number or (one.target, one.owner) != (step.target, step.owner) for one in found):
        return None
    truth = truth_of(scope, test)
    first, last = (step.kept or step.target if one is None else one.value for one in writes)
    value = f"{scope.torch}.where({truth.without_dimensions}, {first}, {last})"
    made = [side for side in sides if side is not None]
    return Side(
        [replace(step, value=value, sign="")],
        [inner.test, *(value for side in made for value in side.values)],
        [*truth.selecting_conditions, *(one for side in made for one in side.conditions)],
    )


def _write_of(scope: Scope, statement: ast.stmt, side: Side) -> Write | None:
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
        return Write(statement, owner, "", text)
    sign = _OPERATORS.get(type(statement.op))
    if sign is None:
        return None
    operand = text if isinstance(value, ast.Constant) else atom(value, text)
    new = f"{owner} {sign} {operand}"
    if is_float(scope, value) and _may_be_double(scope, target):
        return Write(statement, owner, owner, new)
    neutral = "0" if sign in ("+", "-") else "1"
    return Write(statement, owner, owner, new, sign=sign, operand=text, neutral=neutral, factor=operand)


def is_float(scope: Scope, value: ast.expr) -> bool:
    """Return whether a value is a number that `torch.where` would make a float32 tensor of, whatever it goes into."""
    kind = scope.kind(value)
    return k.is_number(kind) and any(getattr(one, "type", "") not in ("bool", "int") for one in kind.members)


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


def _called(scope: Scope, statement: ast.Expr, last: ast.Call, side: Side) -> Write | None:
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
        return Write(statement, name, text, scope.text(given[0]), number=number, kept=value)
    if steps == ["zero_"] and not given:
        return Write(statement, name, text, "0", number=True)
    kept = value
    for step, one in zip(steps, calls, strict=True):
        parts = [*map(scope.text, one.args), *(f"{each.arg}={scope.text(each.value)}" for each in one.keywords)]
        value = f"{value}.{step.removesuffix('_')}({', '.join(parts)})"
    return Write(statement, name, text, value, kept=kept) if _IN_PLACE.issuperset(steps) else None


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
