"""DYN616: a differentiable function that changes its input."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
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
    which are traced. Where `forward` returns the argument itself under the name by which it is marked, Dynamo traces
    the function as long as an argument asks for a gradient; for the other runs, as in inference, it is a remark.

    ## Why
    Dynamo traces `forward` and `backward` of such a function as two graphs of their own. It takes a changed argument
    for traced only if that very argument comes back, and without gradients it does not know `mark_dirty` at all.

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
    GB2464: `autograd.Function.apply: mark_dirty input not returned`, or GB2019: `Unsupported autograd.Function context
    mark_dirty`. torch 2.11 does not break there.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.autograd.function.FunctionCtx.mark_dirty.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb2019.html
    """

    code = "DYN616"
    name = "dirty-input"
    summary = "an autograd function that changes its input ends the graph"
    gb = ("GB2464", "GB2019", "GB0092")
    events = (Call,)
    calls = frozenset({"torch.autograd.Function.mark_dirty"})
    torch = ">=2.13"

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if not isinstance(event, Call):
            return
        if _returns_marked(event):
            message = "in runs without gradients the graph ends where this function is used, because of `mark_dirty`"
            yield Violation(event.node, message, help="compute out of place", severity="info")
        else:
            message = "the graph ends where this function is used: it marks an argument that it does not return itself"
            yield Violation(event.node, message, help="compute out of place")

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
            name="marked-and-returned",
            code=forward(
                "return Scaled.apply(x + 1)",
                head=_SCALED.format(body="x.mul_(2)\n        ctx.mark_dirty(x)  # DYN616\n        return x"),
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


def _returns_marked(event: Call) -> bool:
    """Whether every `return` gives back what is marked, by the same name."""
    marked = {one.id for one in event.node.args if isinstance(one, ast.Name)}
    returned = [node.value for node in walk(event.function.node) if isinstance(node, ast.Return)]
    parts = [one.elts if isinstance(one, ast.Tuple) else [one] for one in returned]
    names = [{one.id for one in part if isinstance(one, ast.Name)} for part in parts]
    return len(marked) == len(event.node.args) and bool(names) and all(marked <= one for one in names)
