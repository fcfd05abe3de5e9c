"""DYN607: a backward pass, or a handle on it, within the forward pass that is compiled."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Project, Refusal, Rewrite, Rule, Violation, leads_to_raise, walk
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.guard.statements import guarded

_INSTEAD = {
    "Tensor.retain_grad": "read the gradient with a hook, or return the tensor and read its gradient outside",
    "torch.autograd.grad": "use `torch.func.grad`, or compute the gradient outside the compiled code",
}
_OUTSIDE = "do this outside the compiled code"


class AutogradCall(Rule):
    code = "DYN607"
    name = "autograd-call"
    summary = "A backward pass inside the compiled function breaks the graph"
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

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if not leads_to_raise(event, project):
            name = event.callee.replace("Tensor.", "t.")
            yield Violation(
                event.node,
                f"`{name}()` needs a backward pass that does not exist while Dynamo traces, so the graph breaks there",
                help=_INSTEAD.get(event.callee, _OUTSIDE),
            )

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Keep gradients in eager code only; gradients of a function are another interface than those of results."""
        if event.callee == "Tensor.retain_grad":
            try:
                return _kept_in_eager(Scope.of(event, project), event)
            except Refusal as refusal:
                return Declined(f"{refusal}; or read the gradient with a hook")
        return Declined(
            "`torch.func.grad` takes a function rather than its result, so the code around it has to change; "
            "or compute the gradient outside the compiled code"
        )


def _kept_in_eager(scope: Scope, event: Call) -> Rewrite:
    """Ask for the gradient to be kept in eager code only."""
    owner = event.node.func.value if isinstance(event.node.func, ast.Attribute) else event.node
    reads = [one for one in walk(scope.function.node) if isinstance(one, ast.Attribute) and one.attr == "grad"]
    if any(ast.dump(one.value) == ast.dump(owner) for one in reads):
        raise Refusal(f"{scope.quote(owner)}`.grad` is read here; read the gradient outside the compiled code")
    condition = f"a compiled run does not keep the gradient of {scope.quote(owner)}"
    return guarded(scope, event, "Keep the gradient only in eager code", safety="unsafe", conditions=(condition,))
