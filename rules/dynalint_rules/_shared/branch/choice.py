"""Replace a conditional expression with `torch.where`, and helpers shared with `if` statements."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dynalint.rulekit import Refusal, Replacement, Rewrite, Safety, k, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.chosen_numbers import tensor_again_conditions
from dynalint_rules._code.effects import effects_of_always, is_pure
from dynalint_rules._code.given import given_tensor, is_first_argument
from dynalint_rules._code.names import loads
from dynalint_rules._code.scope import Scope, as_tensor
from dynalint_rules._shared.branch.blocks import parts_of_test
from dynalint_rules._shared.branch.branch_values import (
    FOR_TENSORS,
    BranchValue,
    alias_conditions,
    flow_of_numbers,
    reads_of,
)
from dynalint_rules._shared.branch.counted import needs_no_test
from dynalint_rules._shared.branch.domain import Guarded, guarded_apart
from dynalint_rules._shared.branch.not_finite import gradients_of_both
from dynalint_rules._shared.branch.truth import is_tensor_test, truth_of
from dynalint_rules._shared.number.flow import NumberFlow
from dynalint_rules._shared.text import atom

TITLE = "Compute both branches and select with `torch.where`"

_LONGEST_REPEATED_TEST = _LONGEST_REPEATED = 40
_ZEROS = frozenset({"torch.zeros", "torch.zeros_like", "Tensor.new_zeros"})
# The order of an operand and its harmless replacement, if the operand is in the first branch or in the last.
GUARD_ORDERS = ("{operand}, {safe}", "{safe}, {operand}")


def rewrite_conditional_expression(scope: Scope, node: ast.IfExp) -> Rewrite:
    """Return the rewrite of `one if test else other`, and of other data-dependent choices with the same form."""
    flow = NumberFlow()
    text, conditions = _chosen(scope, node, flow)
    return finished(scope, TITLE, rw.written(scope.file, (node, text), *flow.edits), conditions, flow)


def _chosen(scope: Scope, node: ast.IfExp, flow: NumberFlow) -> tuple[str, list[str]]:
    """Return the code of the choice and the conditions for it. What follows for numbers is added to `flow`."""
    python, tested = parts_of_test(scope, node.test)
    if python is not None and (not is_pure(scope, node.orelse) or len(scope.text(node.orelse)) > _LONGEST_REPEATED):
        python, tested = None, node.test
    truth = truth_of(scope, tested)
    inner: list[str] = []
    for value in (node.body, node.orelse):
        if isinstance(value, ast.IfExp) and is_tensor_test(scope, value.test):
            scope.renamed[value], conditions = _chosen(scope, value, NumberFlow())
            inner += conditions
    effects = effects_of_always(scope, [node.body, node.orelse], node)
    sides = [BranchValue(value, scope.kind(value)) for value in (node.body, node.orelse)]
    conditions, name = [*truth.selecting_conditions, *inner], target_of(scope, node)
    if all(k.is_number(side.kind) for side in sides):
        flow.add(flow_of_numbers(scope, sides, [node]))
    else:
        conditions += require_tensors(scope, sides)
        refuse_other_sizes(scope, sides)
        conditions += FOR_TENSORS
        conditions += alias_conditions(scope, sides, name, node)
        reads = [reads_of(scope, side, node) for side in sides]
        conditions += gradients_of_both(scope, [node.test], reads, effects.layers, node)
    test = truth.without_dimensions
    texts = with_integers(sides, _sides_of(scope, node, test))
    if (found := needs_no_test(scope, tested, (node.body, node.orelse))) is not None:
        text, conditions = texts[found[0]], [*conditions, found[1]]
    else:
        shorter = without_zeros(scope, (node.body, node.orelse), texts)
        text = f"{scope.torch}.where({', '.join([test, *shorter])})"
    return (text if python is None else f"{text} if {python} else {scope.text(node.orelse)}"), conditions


def without_zeros(scope: Scope, values: Sequence[ast.expr], texts: Sequence[str]) -> list[str]:
    """Return the codes of two values to select between, with the number 0 for a new tensor of zeros.

    The number takes the dtype of the other tensor, which may be another one under autocast.
    """
    shorter = list(texts)
    for at, (value, other) in enumerate(zip(values, reversed(values), strict=True)):
        if len(values) == 2 and _is_zeros(scope, value) and not _is_zeros(scope, other):
            shorter[at] = "0" if scope.tensor(other) is not None else texts[at]
    return shorter


def with_integers(sides: Sequence[BranchValue], texts: Sequence[str]) -> list[str]:
    """Return the codes of the values to select between, with an int for `1.0` beside integers, which then stay so."""
    integral = any(tensor is not None and tensor.dtype == "int" for tensor in (as_tensor(one.kind) for one in sides))
    values = [one.node.value if isinstance(one.node, ast.Constant) else None for one in sides]
    return [
        str(int(value)) if integral and isinstance(value, float) and value.is_integer() else text
        for value, text in zip(values, texts, strict=True)
    ]


def _is_zeros(scope: Scope, value: ast.expr) -> bool:
    if not isinstance(value, ast.Call):
        return False
    if callee(scope, value) == "torch.tensor":
        first = value.args[0] if value.args else None
        return isinstance(first, ast.Constant) and first.value == 0.0 and isinstance(first.value, float)
    return callee(scope, value) in _ZEROS and scope.tensor(value) is not None


def finished(
    scope: Scope,
    title: str,
    edits: tuple[Replacement, ...],
    conditions: Sequence[str],
    flow: NumberFlow | None = None,
) -> Rewrite:
    """Return a rewrite that is exact for every input, unless there are conditions, also those of a number's `flow`."""
    flow = flow or NumberFlow()
    unique = tuple(dict.fromkeys([*flow.changes, *conditions, *flow.conditions]))
    safety: Safety = "unsafe" if flow.changes else "conditional" if unique else "safe"
    return Rewrite(title, safety, edits, unique, flow.imports or scope.imports, flow.leaves)


def rendered(scope: Scope, node: ast.expr, guards: Sequence[Guarded], guard: str) -> str:
    """Return the text of an expression, with the new names from `scope.renamed`.

    Each operand in `guards` is wrapped in `guard`, a format string with the fields `operand` and `safe`.
    """
    if node in scope.renamed:
        return scope.renamed[node]
    parts = [child for child in walk(node) if isinstance(child, ast.expr)]
    inside = {one.node: one for one in guards if one.node is not node and one.node in parts}
    new: dict[ast.expr, str] = {child: scope.renamed[child] for child in parts if child in scope.renamed}
    new |= {child: guarded(scope, one, guards, guard) for child, one in inside.items()}
    return rw.spliced(scope.file, node, new)


def guarded(scope: Scope, one: Guarded, guards: Sequence[Guarded], guard: str) -> str:
    """Return the text of an operand that must be harmless where the other branch is selected."""
    text = rendered(scope, one.node, guards, guard)
    return one.harmless(atom(one.node, text) if one.least else text, guard)


def require_tensors(scope: Scope, sides: Sequence[BranchValue]) -> list[str]:
    """Ensure that the value of every branch is a tensor, and return the conditions for this.

    If one value is known to be a tensor, an unknown value is assumed to be one as well, because a run can verify it. If
    one value is a 0-dim tensor, numbers are converted to tensors, unless the dtype of the result may matter.

    Raises:
        Refusal: If a value is not a tensor, or all values are unknown.
    """
    certain = any(as_tensor(side.kind) is not None or _given(scope, side) for side in sides)
    conditions: list[str] = []
    for side in sides:
        if as_tensor(side.kind) is not None:
            conditions += tensor_again_conditions(scope, side.node) if side.node is not None else []
            continue
        numbers = [one for one in side.kind.members if k.is_number(one)]
        scalars = all(one in numbers or _has_no_dimensions(one) for one in side.kind.members)
        if numbers and scalars and any(_takes_numbers(scope, other, numbers) for other in sides):
            conditions.append(f"{_shown(scope, side)} may be a tensor without dimensions")
            continue
        if not certain or not isinstance(side.kind, k.Unknown) or side.node in scope.composed:
            raise Refusal(_why_no_tensor(scope, side))
        given = _given(scope, side)
        if given is None and _divides(side):
            raise Refusal(_why_no_tensor(scope, side))
        conditions.append(f"{f'`{given}`' if given else _shown(scope, side)} is a tensor")
    return conditions


def _given(scope: Scope, side: BranchValue) -> str | None:
    """Return the argument that makes the value of a branch a tensor if it is one itself, or None."""
    if side.node is not None:
        return given_tensor(scope, side.node)
    unchanged = side.name is not None and side.kind == k.Unknown(side.name)
    return side.name if unchanged and is_first_argument(scope, str(side.name)) else None


def _takes_numbers(scope: Scope, side: BranchValue, numbers: Sequence[k.Kind]) -> bool:
    """Return whether a value is a tensor without dimensions that can be selected beside the numbers.

    If integers become floats, code may only divide by the result.
    """
    tensor = as_tensor(side.kind)
    if tensor is None or tensor.rank != 0:
        return False
    whole = all(isinstance(one, k.Value) and one.type == "int" for one in numbers)
    return tensor.dtype in ((None, "float", "int") if whole else (None, "float")) or (
        tensor.dtype == "int" and side.name is not None and _only_divides(scope, side.name)
    )


def _only_divides(scope: Scope, name: str) -> bool:
    """Return whether code only compares a name, or divides by it."""
    for use in loads(scope, name):
        parent = scope.parents[use]
        divides = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div) and parent.right is use
        if not divides and not isinstance(parent, ast.Compare):
            return False
    return True


def _has_no_dimensions(kind: k.Kind) -> bool:
    tensor = as_tensor(kind)
    return tensor is not None and tensor.rank == 0


def _divides(side: BranchValue) -> bool:
    """Return whether a branch has operators that not all numbers support, and operands that cannot be protected."""
    binary = [one for one in walk(side.node) if isinstance(one, ast.BinOp)] if side.node is not None else []
    others = [one for one in binary if not isinstance(one.op, ast.Add | ast.Sub | ast.Mult)]
    powers = [getattr(one.right, "value", None) if isinstance(one.op, ast.Pow) else None for one in others]
    return not all(type(power) is int and power > 0 for power in powers)


def _shown(scope: Scope, side: BranchValue) -> str:
    return scope.quote(side.node) if side.node is not None else f"`{side.name}`"


def _why_no_tensor(scope: Scope, side: BranchValue) -> str:
    kind = side.kind
    shown = _shown(scope, side)
    if k.NONE in kind.members:
        given = "gives None" if kind == k.NONE else f"gives {shown}, which may be None"
        return f"one branch {given}; use a tensor in both branches, filled with zeros if there is no value"
    if isinstance(kind, k.Tensor):
        return f"{shown} is a NumPy array; convert it to a tensor, then select with `torch.where`"
    if k.is_number(kind):
        return f"one branch gives the number {shown}; use a tensor in both branches, for example with `torch.full_like`"
    if isinstance(kind, k.Value):
        return (
            f"one branch gives the Python value {shown}; compute the tensors that depend on it in both branches instead"
        )
    if isinstance(kind, k.Unknown | k.Nothing):
        return f"dynalint cannot tell whether {shown} is a tensor; if it is, select with `torch.where`"
    return f"{shown} is not a single tensor; select with `torch.where` for each tensor in it"


def _sides_of(scope: Scope, node: ast.IfExp, test: str) -> list[str]:
    """Return the code of the branches, in which operands are harmless where the test selects the other branch.

    Raises:
        Refusal: If the test is too long to repeat, or must not be repeated.
    """
    sides = (node.body, node.orelse)
    guards = [guarded_apart(scope, value) for value in sides]
    repeated = any(not one.least for own in guards for one in own)
    if repeated and (len(test) > _LONGEST_REPEATED_TEST or not is_pure(scope, node.test)):
        raise Refusal(
            "one branch is not defined for all inputs, and the test is too long to repeat; assign the test to "
            "a variable first"
        )
    return [
        rendered(scope, value, own, f"{scope.torch}.where({escaped(test)}, {order})")
        for value, own, order in zip(sides, guards, GUARD_ORDERS, strict=True)
    ]


def escaped(text: str) -> str:
    """Return `text` escaped for use in a format string."""
    return text.replace("{", "{{").replace("}", "}}")


def target_of(scope: Scope, node: ast.expr) -> str | None:
    """Return the name that an expression is assigned to, or None unless there is exactly one."""
    parent = scope.parents.get(node)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        return parent.targets[0].id
    return None


def refuse_other_sizes(scope: Scope, sides: Sequence[BranchValue]) -> None:
    """Ensure that the values of the branches do not visibly differ in size.

    Raises:
        Refusal: If the size of a value is data-dependent, or one value is a part of the other.
    """
    texts = {side.name if side.node is None else scope.text(side.node) for side in sides}
    for node in (side.node for side in sides if side.node is not None):
        for child in walk(node):
            if isinstance(child, ast.expr) and _has_dynamic_size(scope, child):
                raise Refusal(
                    f"{scope.quote(child)} has a size that depends on data, but `torch.where` needs matching "
                    "sizes; keep all elements and weight them with a mask"
                )
        if isinstance(node, ast.Subscript) and _cuts(node.slice) and scope.text(node.value) in texts:
            raise Refusal(f"{scope.quote(node)} is smaller than {scope.quote(node.value)}; pad it to the same size")


def _has_dynamic_size(scope: Scope, node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return scope.tensor(node.value) is not None and "bool" in map(scope.dtype, parts)
    if isinstance(node, ast.Call):
        callee = scope.kind(node.func)
        api = scope.project.api
        if isinstance(callee, k.Method) and isinstance(callee.receiver, k.Tensor):
            entry = api.method(callee.name)
        else:
            entry = api.function(callee.name) if isinstance(callee, k.External) else None
        return entry is not None and all("dynamic_shape" in overload.flags for overload in entry.overloads)
    return False


def _cuts(index: ast.expr) -> bool:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(part, ast.Slice) and (part.lower or part.upper or part.step) for part in parts)
