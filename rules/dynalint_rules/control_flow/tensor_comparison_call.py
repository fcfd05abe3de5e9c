"""DYN107: `torch.equal`, `torch.allclose` and `torch.is_nonzero`, which return a Python bool."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Project, Refusal, Rewrite, Rule, Violation, rw, walk
from dynalint_rules._code.decision import decision_of, is_guard
from dynalint_rules._code.handover import is_passed_up
from dynalint_rules._code.names import loads, only_value
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.decide import rewrite_decision
from dynalint_rules._shared.branch.truth import STAYS, truth_of

_INSTEAD = {
    "equal": "(a == b).all()",
    "allclose": "torch.isclose(a, b).all()",
    "is_nonzero": "t != 0",
}


class TensorComparisonCall(Rule):
    code = "DYN107"
    name = "tensor-comparison-call"
    summary = "Comparison of tensors that returns a Python bool"
    gb = ("GB0033",)
    events = (Call,)
    calls = frozenset(f"{owner}.{name}" for owner in ("torch", "Tensor") for name in _INSTEAD)

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag every call."""
        name = event.callee.rpartition(".")[2]
        message = f"`{name}` reads a Python bool from the data in tensors"
        yield Violation(event.node, message, help=f"Use `{_INSTEAD[name]}`, {STAYS}.")

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Compare with tensor operations, together with what is decided by it."""
        instead = _INSTEAD[event.callee.rpartition(".")[2]]
        value = f"its result is a Python bool, which other code may need; use `{instead}` if a tensor is acceptable"
        scope = Scope.of(event, project)
        try:
            answer = _returned(scope, event.node) or rewrite_decision(event, event.node, project, value=value)
        except Refusal as refusal:
            answer = Declined(str(refusal))
        if isinstance(answer, Declined) and event.callee in ("torch.equal", "Tensor.equal"):
            return _by_identity(scope, event.node) or answer
        return answer


def _by_identity(scope: Scope, node: ast.Call) -> Rewrite | None:
    """The rewrite to `a is b` where the answer only chooses a way for arguments that are the same; None elsewhere."""
    operands = [
        *([node.func.value] if isinstance(node.func, ast.Attribute) and len(node.args) == 1 else []),
        *node.args,
    ]
    if len(operands) != 2 or node.keywords or not all(_is_given(scope, one) for one in operands):
        return None
    statement: ast.AST = node
    while isinstance(statement := scope.parents[statement], ast.BoolOp | ast.UnaryOp):
        pass
    uses: list[ast.expr] = [node]
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        name = statement.targets[0].id
        uses = [*loads(scope, name)] if only_value(scope, name, node) is statement.value else []
    decisions = [decision_of(scope.parents, use) for use in uses]
    if not uses or any(one.form not in ("if", "ifexp") or is_guard(one.node) for one in decisions):
        return None
    one, other = (scope.text(operand) for operand in operands)
    parent = scope.parents[node]
    asked = parent if isinstance(parent, ast.UnaryOp) else node
    text = f"{one} is {other}" if asked is node else f"{one} is not {other}"
    conditions = (
        f"`{one}` and `{other}` that are equal but not the same tensor take the other path, each with its own gradient",
        "a tensor that contains NaN is identical to itself, but not equal",
    )
    edits = rw.written(scope.file, (asked, text))
    return Rewrite("Test whether they are the same tensor", "unsafe", edits, conditions)


def _is_given(scope: Scope, node: ast.expr) -> bool:
    """Whether an expression is an argument of the function as it came."""
    if not isinstance(node, ast.Name) or node.id not in {
        one.arg for one in walk(scope.function.node.args) if isinstance(one, ast.arg)
    }:
        return False
    stores = (one for one in walk(scope.function.node) if isinstance(one, ast.Name) and one.id == node.id)
    return not any(isinstance(one.ctx, ast.Store) and one.lineno <= node.lineno for one in stores)


def _returned(scope: Scope, node: ast.Call) -> Rewrite | None:
    """The rewrite where the answer does nothing but leave the compiled code, None where it is put to use in it."""
    parent = scope.parents[node]
    uses: list[ast.expr] = [node]
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        name = parent.targets[0].id
        uses = [*loads(scope, name)] if only_value(scope, name, node) is node else []
    if not uses or not all(_leaves(scope, one) for one in uses) or not is_passed_up(scope):
        return None
    truth = truth_of(scope, node)
    conditions = ("the caller gets a tensor of one bool in the place of a bool", *truth.conditions)
    edits = rw.written(scope.file, (node, truth.text))
    return Rewrite("Return the result as a tensor", "unsafe", edits, conditions, scope.imports)


def _leaves(scope: Scope, node: ast.expr) -> bool:
    """Whether a value is returned, by itself or in a tuple, list or dict."""
    parent = scope.parents[node]
    while isinstance(parent, ast.Tuple | ast.List | ast.Dict):
        parent = scope.parents[parent]
    return isinstance(parent, ast.Return)
