"""DYN107: `torch.equal`, `torch.allclose` and `torch.is_nonzero`, which return a Python bool."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Project, Rewrite, Rule, Violation
from dynalint_rules._shared.branch.decide import rewrite_decision
from dynalint_rules._shared.branch.truth import STAYS

_INSTEAD = {
    "equal": "(a == b).all()",
    "allclose": "torch.isclose(a, b).all()",
    "is_nonzero": "t != 0",
}


class TensorComparisonCall(Rule):
    code = "DYN107"
    name = "tensor-comparison-call"
    summary = "Comparison of tensors that returns a Python bool"
    gb = ("GB0033",)
    reads_data = True
    events = (Call,)
    calls = frozenset(f"{owner}.{name}" for owner in ("torch", "Tensor") for name in _INSTEAD)

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag every call."""
        name = event.callee.rpartition(".")[2]
        message = f"`{name}` returns a Python bool that depends on the data in tensors, which breaks the graph"
        yield Violation(event.node, message, help=f"Use `{_INSTEAD[name]}`, {STAYS}.")

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Compare with tensor operations, and rewrite the branch that depends on the result."""
        instead = _INSTEAD[event.callee.rpartition(".")[2]]
        value = f"the result is a Python bool, which other code may need; use `{instead}` if a tensor is acceptable"
        return rewrite_decision(event, project, value=value)
