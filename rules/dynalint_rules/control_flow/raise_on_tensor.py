"""DYN105: a check that raises, depending on the values in a tensor."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Branch, Declined, Project, Rewrite, Rule, Violation, quote
from dynalint_rules._code.decision import asks_tensor, decision_of, is_guard, operand_of
from dynalint_rules._shared.branch.decide import rewrite_decision


class RaiseOnTensor(Rule):
    code = "DYN105"
    name = "raise-on-tensor"
    summary = "Check that raises an exception depending on the data in a tensor"
    gb = ("GB0170",)
    reads_data = True
    events = (Branch,)

    def check(self, event: Branch, project: Project) -> Iterable[Violation]:
        """Flag the operands of tests that determine whether a `raise` runs."""
        operand = operand_of(event)
        if operand is None or event.form in ("in", "chained-comparison"):
            return
        decision = decision_of(project.parents(event.function), operand)
        if decision.form == "if" and is_guard(decision.node) and asks_tensor(event, project):
            shown = quote(event.function.file, operand)
            message = (
                f"Dynamo cannot know whether this raises an exception, because that depends on the data in {shown}"
            )
            yield Violation(operand, message, help="Use `torch._assert_async`, which checks on the device.")

    def fix(self, event: Branch, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Check with `torch._assert_async`."""
        return rewrite_decision(event, project, value="this tensor does not decide whether to raise an exception")
