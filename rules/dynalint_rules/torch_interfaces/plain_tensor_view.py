"""DYN617: converting a tensor subclass to a plain tensor with `as_subclass`."""

from __future__ import annotations

from dynalint.rulekit import Call, Project, Rule, k


class PlainTensorView(Rule):
    code = "DYN617"
    name = "plain-tensor-view"
    summary = "`as_subclass(torch.Tensor)` breaks the graph"
    gb = ("GB0001",)
    events = (Call,)
    calls = frozenset({"Tensor.as_subclass"})
    message = "Dynamo does not trace `as_subclass(torch.Tensor)`, so the graph breaks here"
    help = "use plain tensors, and create the subclass outside the compiled code"
    refusal = "Dynamo does not trace any function that converts a subclass to a plain tensor; use plain tensors instead"

    def flags(self, event: Call, project: Project) -> bool:
        """Return whether the argument is `torch.Tensor`."""
        return event.args[:1] == (k.External("torch.Tensor"),)
