"""DYN106: `in` and the builtins `any`, `all` and `sorted`, which compare or test tensors implicitly."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Branch, Call, Declined, Project, Rewrite, Rule, Violation, k, quote
from dynalint_rules._code.decision import Decision, asks_tensor, decision_of
from dynalint_rules._shared.branch.checks import is_constant_message
from dynalint_rules._shared.branch.decide import rewrite_decision
from dynalint_rules._shared.branch.truth import STAYS

_VALUE = (
    "the result is a Python bool, which other code may need; if a tensor is acceptable, compare with `==` and "
    "reduce with `.any()` or `.all()`"
)


class MembershipOnTensor(Rule):
    code = "DYN106"
    name = "membership-on-tensor"
    summary = "`in`, `any`, `all` or `sorted` compares or tests tensors in Python"
    gb = ("GB0170", "GB0124", "GB0033", "GB0207", "GB0059")
    reads_data = True
    events = (Branch, Call)
    calls = frozenset({"builtins.any", "builtins.all", "builtins.sorted", "list.sort"})

    def check(self, event: Branch | Call, project: Project) -> Iterable[Violation]:
        """Flag membership tests and builtins that evaluate the truth values of tensors."""
        if isinstance(event, Call):
            yield from _check_call(event)
        elif isinstance(event, Branch) and event.form == "in" and asks_tensor(event, project):
            yield from _check_membership(event, project)

    def fix(self, event: Branch | Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Compare and reduce with tensor operations, and rewrite the branch that depends on the result."""
        if isinstance(event, Call) and event.callee in ("builtins.sorted", "list.sort"):
            return Declined(
                "the tensors are sorted in Python; use `torch.stack` to combine them and `torch.sort` to sort them"
            )
        return rewrite_decision(event, project, value=_VALUE)


def _check_call(event: Call) -> Iterable[Violation]:
    name = event.callee.rpartition(".")[2]
    collection = event.receiver if event.callee == "list.sort" else event.args[0] if event.args else None
    if collection is None or "key" in event.keywords or not _holds_tensors(collection):
        return
    if name in ("any", "all"):
        message = f"`{name}(...)` converts the tensors to Python bools one by one, which breaks the graph"
        drawn = isinstance(collection, k.Sequence) and collection.type == "generator"  # Dynamo cannot resume in it
        yield Violation(event.node, message, help=f"Use the tensor's `.{name}()` method, {STAYS}.", gives_up=drawn)
    else:
        message = f"`{name}(...)` compares the tensors in Python, which breaks the graph"
        yield Violation(event.node, message, help="Use `torch.sort`.")


def _holds_tensors(kind: k.Kind) -> bool:
    if isinstance(kind, k.Tensor):
        return not kind.array
    return isinstance(kind, k.Sequence) and k.only_tensor(kind.element) is not None


def _is_text(kind: k.Kind) -> bool:
    return isinstance(kind, k.Value) and kind.type == "str"


def _check_membership(event: Branch, project: Project) -> Iterable[Violation]:
    node = event.node
    kinds = project.kinds(event.function)
    if not isinstance(node, ast.Compare) or _is_text(kinds.get(node.left, k.UNKNOWN)):
        return  # a string is looked up in a dict, where it is never compared with a tensor
    shown = quote(event.function.file, node)
    decision: Decision = decision_of(project.parents(event.function), node)
    negated = any(isinstance(operator, ast.NotIn) for operator in node.ops)
    in_tensor = k.may_be_tensor(kinds.get(node.comparators[-1], k.UNKNOWN))
    if in_tensor:
        message = f"{shown} searches the tensor for a value in Python, which breaks the graph"
        yield Violation(node, message, help=f"Compare with `==`, reduce with `.any()`, {STAYS}.", gb=("GB0124",))
    elif negated or not decision.asked or decision.form not in ("assert", "value"):
        message = f"{shown} compares the tensor with one element at a time in Python, which breaks the graph"
        yield Violation(node, message, help=f"Combine comparisons with `|`, or use `torch.isin`, {STAYS}.")
    elif isinstance(decision.node, ast.Assert):
        if not is_constant_message(decision.node.msg):
            message = f"Dynamo can only keep the assertion about {shown} in the graph if its message is a constant"
            yield Violation(node, message, help="Use a constant string as the message.")
    else:
        message = f"{shown} is a bool in eager mode, but a tensor in compiled code"
        yield Violation(
            node,
            message,
            help="Compare with `==` and combine the results with `|`, which gives a tensor in both.",
            category="miscompile",
        )
