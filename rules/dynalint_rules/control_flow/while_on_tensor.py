"""DYN102: a `while` loop whose condition is a tensor."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Branch, Project, Rule, Violation, quote
from dynalint_rules._code.decision import asks_tensor, decision_of, operand_of, thing
from dynalint_rules._shared.branch.decide import ROUNDS


class WhileOnTensor(Rule):
    code = "DYN102"
    name = "while-on-tensor"
    summary = "Loop whose number of iterations depends on the data in a tensor"
    gb = ("GB0170",)
    reads_data = True
    events = (Branch,)
    refusal = ROUNDS

    def check(self, event: Branch, project: Project) -> Iterable[Violation]:
        """Flag the operands of `while` conditions."""
        operand = operand_of(event)
        if operand is None or event.form in ("in", "chained-comparison"):
            return
        decision = decision_of(project.parents(event.function), operand)
        if decision.form == "while" and asks_tensor(event, project):
            shown = quote(event.function.file, operand)
            message = f"Dynamo cannot know how many times this `while` loop runs because {shown} is {thing(event.kind)}"
            yield Violation(
                operand,
                message,
                help="Run a fixed number of iterations, and use `torch.where` to keep finished results.",
            )
