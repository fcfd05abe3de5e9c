"""DYN104: assertions on tensors that Dynamo does not keep in the graph."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Branch, Call, Declined, Project, Rewrite, Rule, Violation, k, quote
from dynalint_rules._code.decision import asks_tensor, decision_of, operand_of
from dynalint_rules._shared.branch.checks import is_constant_message
from dynalint_rules._shared.branch.decide import rewrite_decision


class AssertOnTensor(Rule):
    code = "DYN104"
    name = "assert-on-tensor"
    summary = "Assertion on a tensor in a form that Dynamo cannot keep in the graph"
    gb = ("GB0170", "GB0171", "GB0033")
    reads_data = True
    events = (Branch, Call)
    calls = frozenset({"torch._assert"})

    def check(self, event: Branch | Call, project: Project) -> Iterable[Violation]:
        """Flag the operands of an assertion that Dynamo would branch on."""
        if isinstance(event, Call):
            if event.args and k.only_tensor(event.args[0]) is not None:
                message = "`torch._assert` converts a tensor to a Python bool, which breaks the graph"
                help_ = "Use `torch._assert_async`, which checks on the device."
                yield Violation(event.node, message, help=help_, torch="<2.15")
            return
        operand = operand_of(event)
        if operand is None or not isinstance(event, Branch) or event.form == "in" or not asks_tensor(event, project):
            return
        decision = decision_of(project.parents(event.function), operand)
        if not isinstance(decision.node, ast.Assert):
            return
        constant = is_constant_message(decision.node.msg)
        shown = quote(event.function.file, operand)
        if not decision.asked or (event.form == "chained-comparison" and constant):
            message = (
                "Dynamo can only keep an assertion about a single tensor in the graph, but this one first "
                f"converts {shown} to a bool"
            )
            yield Violation(operand, message, help="Assert one tensor at a time, and write `~t` instead of `not t`.")
        elif not constant and event.form != "chained-comparison":
            message = f"Dynamo can only keep the assertion about {shown} in the graph if its message is a constant"
            yield Violation(operand, message, help="Use a constant string as the message.")

    def fix(self, event: Branch | Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Assert one tensor at a time, with a constant message."""
        if isinstance(event, Call):
            return Declined("call `torch._assert_async`, which checks on the device and raises RuntimeError")
        return rewrite_decision(event, project, value="this tensor is not the condition of an assertion")
