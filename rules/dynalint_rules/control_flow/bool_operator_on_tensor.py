"""DYN103: `and`, `or`, `not` and chained comparisons of tensors, used as values."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Branch, Declined, Project, Refusal, Rewrite, Rule, Violation, k, quote, rw
from dynalint_rules._code.decision import Decision, asks_tensor, decision_of, operand_of, thing
from dynalint_rules._code.effects import effects_of_always, is_pure
from dynalint_rules._code.names import loads
from dynalint_rules._code.raising import raising_conditions
from dynalint_rules._code.scope import Scope, as_tensor, shared
from dynalint_rules._shared.branch.branch_values import (
    FOR_TENSORS,
    BranchValue,
    alias_conditions,
    gradient_conditions,
    reads_of,
)
from dynalint_rules._shared.branch.choice import finished, target_of
from dynalint_rules._shared.branch.decide import rewrite_if
from dynalint_rules._shared.branch.truth import truth_of
from dynalint_rules._shared.text import atom

TITLE = "Use tensor operations instead of `and`, `or` and chained comparisons"
_TESTING = ast.If | ast.BoolOp | ast.UnaryOp
_WORDS = {"chained-comparison": "this chained comparison"}


class BoolOperatorOnTensor(Rule):
    code = "DYN103"
    name = "bool-operator-on-tensor"
    summary = "The result of `and`, `or`, `not` or a chained comparison of tensors is used as a value"
    gb = ("GB0170", "GB0033")
    reads_data = True
    events = (Branch,)

    def check(self, event: Branch, project: Project) -> Iterable[Violation]:
        """Flag operands whose truth is evaluated outside a test."""
        operand = operand_of(event)
        if operand is None or not asks_tensor(event, project):
            return
        if event.form not in ("and", "or", "not", "chained-comparison"):
            return
        decision: Decision = decision_of(project.parents(event.function), operand)
        if decision.form == "value":
            what = _WORDS.get(event.form, f"`{event.form}`")
            message = (
                f"{what} converts {quote(event.function.file, operand)} to a Python bool, but it is {thing(event.kind)}"
            )
            yield Violation(operand, message, help="Use `&`, `|`, `~` or `torch.where` instead.")

    def fix(self, event: Branch, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Use `&` and `|`, or `torch.where`."""
        operand = operand_of(event)
        if operand is None:
            return None
        scope = Scope.of(event, project)
        return _rewrite(scope, operand, event.form)


def _rewrite(scope: Scope, operand: ast.expr, form: str) -> Rewrite:
    if form == "not":
        raise Refusal(
            f"`not` returns a Python bool, which other code may need; use `torch.logical_not({scope.text(operand)})` "
            "if a tensor is acceptable"
        )
    whole: ast.expr = operand
    if form != "chained-comparison":
        parent = scope.parents.get(operand)
        if not isinstance(parent, ast.BoolOp):
            raise Refusal(
                "dynalint cannot rewrite the operator that this tensor belongs to; use tensor operations instead"
            )
        whole = parent
    if _is_part(scope, whole):
        raise Refusal(
            "this is part of a larger expression with `and`, `or` or `not`; rewrite the whole expression with "
            "tensor operations"
        )
    return shared((_rewrite, scope.function, whole), lambda: _rewrite_whole(scope, whole))


def _rewrite_whole(scope: Scope, whole: ast.expr) -> Rewrite:
    text, conditions = _comparison(scope, whole) if isinstance(whole, ast.Compare) else _bool_op(scope, whole)
    _require_no_branch(scope, whole)
    return finished(scope, TITLE, rw.written(scope.file, (whole, text)), conditions)


def _require_no_branch(scope: Scope, whole: ast.expr) -> None:
    """Ensure that the result does not decide a branch that would still break the graph.

    Raises:
        Refusal: If it gets a name that an `if` tests, and the `if` has no rewrite.
    """
    name = target_of(scope, whole)
    for read in [] if name is None else loads(scope, name):
        decision = decision_of(scope.parents, read) if isinstance(scope.parents[read], _TESTING) else None
        if decision is not None and isinstance(decision.node, ast.If):
            try:
                rewrite_if(scope, decision.node)
            except Refusal as why:
                raise Refusal(f"`{name}` still decides the branch on line {decision.node.lineno}: {why}") from why


def _is_part(scope: Scope, node: ast.expr) -> bool:
    parent = scope.parents.get(node)
    return isinstance(parent, ast.BoolOp) or (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not))


def _comparison(scope: Scope, node: ast.Compare) -> tuple[str, list[str]]:
    truth = truth_of(scope, node)
    return truth.text, [*truth.conditions, *_one_element(bool(truth.scalar))]


def _one_element(scalar: bool) -> list[str]:
    return [] if scalar else ["all operands have the same number of dimensions"]


def _bool_op(scope: Scope, node: ast.expr) -> tuple[str, list[str]]:
    if not isinstance(node, ast.BoolOp):
        raise Refusal("dynalint does not know this operator; use tensor operations instead")
    kinds = [as_tensor(scope.kind(value)) for value in node.values]
    sides = [BranchValue(value, scope.kind(value)) for value in node.values]
    for value, kind in zip(node.values, kinds, strict=True):
        if kind is None:
            raise Refusal(
                f"{scope.quote(value)} is not a tensor, so the result is not always a tensor; choose between the two "
                "with an `if` on the Python value"
            )
    effects = effects_of_always(scope, node.values[1:], node)
    conditions = alias_conditions(scope, sides, target_of(scope, node), node)
    conditions += raising_conditions(scope, node.values[1:])
    if all(kind is not None and kind.dtype == "bool" for kind in kinds):
        operator = " & " if isinstance(node.op, ast.And) else " | "
        scalar = all(truth_of(scope, value).scalar for value in node.values)
        text = operator.join(atom(value, scope.text(value)) for value in node.values)
        return text, [*conditions, *_one_element(scalar)]
    if len(node.values) > 2:
        raise Refusal("this selects between more than two tensors; select between two at a time with `torch.where`")
    first, second = node.values
    if not isinstance(first, ast.Name | ast.Attribute) and not is_pure(scope, first):
        raise Refusal(f"{scope.quote(first)} would be computed twice; assign it to a variable first")
    if not isinstance(first, ast.Name | ast.Attribute):
        raise Refusal(f"{scope.quote(first)} would be written twice; assign it to a variable first")
    conditions += FOR_TENSORS
    conditions += gradient_conditions([reads_of(scope, sides[0], node), _both(scope, sides, node)], effects.layers)
    taken = (
        [scope.text(second), scope.text(first)]
        if isinstance(node.op, ast.And)
        else [scope.text(first), scope.text(second)]
    )
    test = truth_of(scope, first)
    conditions += test.selecting_conditions
    return f"{scope.torch}.where({test.without_dimensions}, {', '.join(taken)})", conditions


def _both(scope: Scope, sides: list[BranchValue], node: ast.expr) -> set[str]:
    return set().union(*(reads_of(scope, side, node) for side in sides if k.may_be_tensor(side.kind)))
