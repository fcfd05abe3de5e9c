"""DYN101: an `if`, `elif` or conditional expression that depends on the values in a tensor."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Branch, Declined, Project, Rewrite, Rule, Violation, ends_function, quote
from dynalint_rules._code.decision import asks_tensor, decision_of, is_guard, operand_of, tested_value, thing
from dynalint_rules._shared.branch.decide import rewrite_decision

_WHAT = {
    "if": "which branch of this `if` to trace",
    "ifexp": "which branch of this conditional expression to trace",
    "comprehension": "which elements this comprehension keeps",
    "match": "which `case` of this `match` to trace",
}
_HELP = {
    "if": "Compute both branches and select with `torch.where`.",
    "ifexp": "Compute both branches and select with `torch.where`.",
    "comprehension": "Keep all elements, and give them a weight of zero where the condition is false.",
    "match": "Compute every case and select with `torch.where`.",
}


class BranchOnTensor(Rule):
    code = "DYN101"
    name = "branch-on-tensor"
    summary = "Branch that depends on the data in a tensor"
    gb = ("GB0170",)
    reads_data = True
    events = (Branch,)

    def check(self, event: Branch, project: Project) -> Iterable[Violation]:
        """Flag the operands of tests, except for tests in loops, assertions and checks that raise."""
        operand, parents = operand_of(event), project.parents(event.function)
        if operand is None or event.form in ("in", "chained-comparison"):
            return
        decision = decision_of(parents, operand)
        if decision.form not in _WHAT or is_guard(decision.node) or not asks_tensor(event, project):
            return
        shown = quote(event.function.file, operand)
        outer = "loop" if event.position.loop else "`try`"
        lost = f", and the {outer} around it makes Dynamo skip the whole function"
        lost = lost if ends_function(event, parents) else ""
        message = f"Dynamo cannot know {_WHAT[decision.form]} because {shown} is {thing(event.kind)}{lost}"
        yield Violation(tested_value(operand, decision), message, help=_HELP[decision.form])

    def fix(self, event: Branch, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Select with `torch.where`."""
        return rewrite_decision(event, project, value="this tensor does not decide a branch")
