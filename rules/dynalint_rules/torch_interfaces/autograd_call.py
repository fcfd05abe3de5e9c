"""DYN607: running a backward pass, or accessing one, in compiled code."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Call, Project, Rule, Violation, leads_to_raise

_INSTEAD = {
    "Tensor.retain_grad": (
        "read the gradient with a hook, or return the tensor and read its gradient outside the compiled code"
    ),
    "torch.autograd.grad": "use `torch.func.grad`, or compute the gradient outside the compiled code",
}
_OUTSIDE = "do this outside the compiled code"


class AutogradCall(Rule):
    code = "DYN607"
    name = "autograd-call"
    summary = "Running a backward pass in compiled code breaks the graph"
    gb = ("GB0123", "GB9186", "GB0108", "GB0007", "GB0008", "GB0055")
    events = (Call,)
    calls = frozenset(
        {
            "Tensor.backward",
            "Tensor.retain_grad",
            "torch.autograd.backward",
            "torch.autograd.grad",
            "torch.autograd.functional.*",
            "torch.autograd.detect_anomaly",
            "torch.autograd.set_detect_anomaly",
            "torch.autograd.graph.saved_tensors_hooks",
            "torch.autograd.graph.save_on_cpu",
        }
    )
    refusal = (
        "`torch.func.grad` takes a function rather than its result, so the code around it has to change; "
        "alternatively, compute the gradient outside the compiled code"
    )

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag every call."""
        if not leads_to_raise(event, project):
            name = event.callee.replace("Tensor.", "t.")
            yield Violation(
                event.node,
                f"`{name}()` needs an autograd graph, which does not exist during tracing, so the graph breaks here",
                help=_INSTEAD.get(event.callee, _OUTSIDE),
            )
