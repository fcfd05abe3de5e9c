"""DYN619: the backward pass of an autograd function, which Dynamo traces before anything runs backward."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis.events import Event, Raising, Read
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward

_FUNCTION = "torch.autograd.Function"
_SAVED = f"{_FUNCTION}.saved_variables"
_SCALED = """
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        {body}
"""


class UntracedBackward(Rule):
    """Raise in the `backward` of a `torch.autograd.Function`, or read its tensors by the old name.

    ## What it flags
    A `backward` that does nothing but raise, and `ctx.saved_variables`, in a function that compiled code applies.

    ## Why
    Dynamo traces `backward` along with `forward`, at the place where the function is applied, if some input requires a
    gradient. An exception there ends the graph though no backward pass has begun, and Dynamo's stand-in for `ctx` has
    `saved_tensors` but not the older `saved_variables`.

    ## Example
    ```python
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_variables
        return grad * x
    ```

    Use instead:
    ```python
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x
    ```

    ## How it is rewritten
    `ctx.saved_variables` becomes `ctx.saved_tensors`, which holds the same in every release that dynalint supports. A
    `backward` that raises is left: compute what has no gradient under `torch.no_grad()`, without an autograd function.

    ## When the rewrite is not exact
    `saved_variables` warns that it is deprecated and `saved_tensors` does not, so the rewrite is only applied with
    `--unsafe-fixes`. Without the function nothing raises when a gradient is asked for.

    ## How Dynamo words it
    GB0088: `Observed exception`.

    ## References
    - https://docs.pytorch.org/docs/stable/notes/extending.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0088.html
    """

    code = "DYN619"
    name = "untraced-backward"
    summary = "a `backward` that raises while it is traced ends the graph where its function is applied"
    gb = ("GB0088", "GB0077")
    events = (Raising, Read)
    calls = frozenset({_SAVED})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the read, or the `raise` that is all of a `backward`."""
        if isinstance(event, Read):
            yield Violation(
                event.node,
                "Dynamo's `ctx` has no `saved_variables`, so the graph ends where this function is applied",
                help="read `ctx.saved_tensors`",
            )
        elif isinstance(event, Raising) and _is_all_of_backward(event, project):
            yield Violation(
                event.node,
                "Dynamo traces `backward` where the function is applied, comes to this `raise`, and ends the graph",
                help="compute what has no gradient under `torch.no_grad()`, without an autograd function",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Read what is saved by its new name; what is computed without the function does not raise."""
        if isinstance(event, Read):
            file = event.function.file
            _, end = file.span(event.node)
            replacement = Replacement(file, end - len(event.node.attr), end, "saved_tensors")
            changes = "torch no longer warns that `saved_variables` is deprecated"
            return Rewrite("Read `saved_tensors`", "unsafe", (replacement,), (changes,))
        return Declined("without the autograd function nothing would raise when a gradient is asked for")

    examples = (
        Example(
            name="raises",
            code=forward(
                "return Scaled.apply(self.fc(x)) + 1",
                head=_SCALED.format(body="raise NotImplementedError  # DYN619"),
            ),
            declined="nothing would raise",
        ),
        Example(
            name="old-name",
            code=forward(
                "return scaled(self.fc(x)) + 1",
                head=_SCALED.format(body="(x,) = ctx.saved_variables  # DYN619\n        return grad * x")
                + "\n\nscaled = Scaled.apply",
            ),
            fixed=forward(
                "return scaled(self.fc(x)) + 1",
                head=_SCALED.format(body="(x,) = ctx.saved_tensors\n        return grad * x")
                + "\n\nscaled = Scaled.apply",
            ),
        ),
        Example(
            name="traced",
            code=forward(
                "return Scaled.apply(self.fc(x)) + 1",
                head=_SCALED.format(
                    body="(x,) = ctx.saved_tensors\n        if x.dim() > 3:\n            raise ValueError"
                    "\n        return grad * 2"
                ),
            ),
        ),
    )


def _is_all_of_backward(event: Raising, project: Project) -> bool:
    function = event.function
    if function.name != "backward" or function.owner is None or _FUNCTION not in project.lineage(function.owner)[1]:
        return False
    first = next((one for one in function.statements if not _is_docstring(one)), None)
    return first is event.node


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
