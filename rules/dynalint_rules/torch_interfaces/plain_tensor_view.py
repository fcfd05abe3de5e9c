"""DYN617: a tensor taken for a plain one by `as_subclass`."""

from __future__ import annotations

from dynalint.rulekit import Call, Project, Rule, k


class PlainTensorView(Rule):
    code = "DYN617"
    name = "plain-tensor-view"
    summary = "`as_subclass(torch.Tensor)` ends the graph"
    gb = ("GB0001",)
    events = (Call,)
    calls = frozenset({"Tensor.as_subclass"})
    message = "Dynamo does not trace `as_subclass(torch.Tensor)`, so the graph ends there"
    help = "do the work on plain tensors, and make the subclass outside of the compiled code"
    refusal = "nothing that is traced gives a plain tensor of a subclass; work on plain tensors throughout"

    def flags(self, event: Call, project: Project) -> bool:
        """Whether the class is that of plain tensors."""
        return event.args[:1] == (k.External("torch.Tensor"),)
