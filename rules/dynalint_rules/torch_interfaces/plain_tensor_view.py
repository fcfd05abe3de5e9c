"""DYN617: a tensor taken for a plain one by `as_subclass`."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Event, Project, Rewrite, Rule, Violation, k


class PlainTensorView(Rule):
    code = "DYN617"
    name = "plain-tensor-view"
    summary = "`as_subclass(torch.Tensor)` ends the graph"
    gb = ("GB0001",)
    events = (Call,)
    calls = frozenset({"Tensor.as_subclass"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call if the class is that of plain tensors."""
        if isinstance(event, Call) and event.args[:1] == (k.External("torch.Tensor"),):
            yield Violation(
                event.node,
                "Dynamo does not trace `as_subclass(torch.Tensor)`, so the graph ends there",
                help="do the work on plain tensors, and make the subclass outside of the compiled code",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: nothing that is traced does the same."""
        return Declined("nothing that is traced gives a plain tensor of a subclass; work on plain tensors throughout")
