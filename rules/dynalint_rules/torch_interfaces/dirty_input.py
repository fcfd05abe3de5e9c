"""DYN616: a differentiable function that changes its input."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward

_SCALED = """
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        {body}

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2
"""


class DirtyInput(Rule):
    """Mark an input of a `torch.autograd.Function` as changed in place.

    ## What it flags
    `ctx.mark_dirty(...)` in the `forward` of a `torch.autograd.Function` that compiled code applies. Not flagged:
    `ctx.save_for_backward`, `ctx.mark_non_differentiable`, `ctx.set_materialize_grads` and attributes of `ctx`, all of
    which are traced.

    ## Why
    Dynamo traces `forward` and `backward` of such a function as two graphs of their own, and neither may change what
    comes into it.

    ## Example
    ```python
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x
    ```

    Use instead:
    ```python
    @staticmethod
    def forward(ctx, x):
        return x * 2
    ```

    ## How it is rewritten
    It is not: whether the caller counts on its tensor having changed is not to be seen from here.

    ## When the rewrite is not exact
    Out of place, the tensor of the caller keeps its value, and the result takes memory of its own.

    ## How Dynamo words it
    GB2019: `Unsupported autograd.Function context mark_dirty`. torch 2.11 does not break there.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.autograd.function.FunctionCtx.mark_dirty.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb2019.html
    """

    code = "DYN616"
    name = "dirty-input"
    summary = "an autograd function that changes its input ends the graph"
    gb = ("GB2019", "GB0092")
    events = (Call,)
    calls = frozenset({"torch.autograd.Function.mark_dirty"})
    torch = ">=2.13"

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if isinstance(event, Call):
            yield Violation(
                event.node,
                "Dynamo does not trace a function that marks its input as changed, and ends the graph where it is used",
                help="compute out of place",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: the caller may count on the change."""
        return Declined("the caller may count on its tensor having changed; compute out of place if it does not")

    examples = (
        Example(
            name="marked",
            code=forward(
                "return Scaled.apply(self.fc(x) + 1)",
                head=_SCALED.format(body="ctx.mark_dirty(x)  # DYN616\n        return x.mul_(2)"),
            ),
            declined="compute out of place",
        ),
        Example(
            name="out-of-place",
            code=forward(
                "return Scaled.apply(self.fc(x) + 1)",
                head=_SCALED.format(body="ctx.save_for_backward(x)\n        ctx.factor = 2\n        return x * 2"),
            ),
        ),
    )
