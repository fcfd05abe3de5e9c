"""DYN623: what Dynamo does not read off an autograd function: variables of its class, and `apply` of an instance."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, Read
from dynalint.analysis.project import Project
from dynalint.analysis.stores import FUNCTION_VARIABLE
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward

_SCALED = """
class Spike(torch.autograd.Function):
    scale = 100.0
    names = ["v", "i"]

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).float()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / (100.0 * x.abs() + 1)
"""


class FunctionVariable(Rule):
    """Read a variable of the class of a `torch.autograd.Function`, or apply an instance of it.

    ## What it flags
    `Spike.scale` where `Spike` is a `torch.autograd.Function` and `scale` a variable that its class body sets, used in
    arithmetic, a comparison, a test, a loop or a call; in its own `forward` and `backward`, too. And
    `self.spike.apply(x)` where `self.spike` is an instance, `Spike()`, that was there before the call.

    Not flagged: its methods, `Spike.apply(x)`, a comparison by `is`, and what is only handed on.

    ## Why
    For Dynamo an autograd function is something to apply. It does not look up what else the class holds, so the first
    thing done with it ends the graph. An instance is not what `apply` belongs to either.

    ## Example
    ```python
    class Spike(torch.autograd.Function):
        scale = 100.0

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad / (Spike.scale * x.abs() + 1)
    ```

    Use instead:
    ```python
    SCALE = 100.0


    class Spike(torch.autograd.Function):
        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad / (SCALE * x.abs() + 1)
    ```

    ## How it is rewritten
    It is not: who else sets or reads the variable is for you to say. Keep it in a global of the module, or pass it to
    `apply`; store the class in place of an instance.

    ## When the rewrite is not exact
    There is none.

    ## How Dynamo words it
    GB4841: `Unsupported python_type() call`, GB6215: `Unresolved GetAttrVariable comparison`, GB0055:
    `Failed to convert args/kwargs to proxy`, GB0156: `Unsupported method call`.

    ## References
    - https://docs.pytorch.org/docs/stable/notes/extending.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb4841.html
    """

    code = "DYN623"
    name = "function-variable"
    summary = "a variable of an autograd function's class, or `apply` of an instance, ends the graph"
    gb = ("GB4841", "GB6215", "GB0055", "GB0156")
    events = (Read,)
    calls = frozenset({FUNCTION_VARIABLE, "torch.autograd.Function.apply"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag a variable that something is done with, and `apply` of an instance that was there before."""
        if not isinstance(event, Read):
            return
        if event.name == FUNCTION_VARIABLE:
            if _is_used(event, project):
                shown = ast.unparse(event.node)
                text = f"`{shown}` is a variable of an autograd function's class, which Dynamo does not look up"
                yield Violation(event.node, text, help="keep it in a global of the module, or pass it to `apply`")
        elif isinstance(event.owner, k.Instance) and not event.owner.made:
            text = (
                f"`{ast.unparse(event.node.value)}` is an instance of an autograd function: only its class is applied"
            )
            yield Violation(event.node, text, help="store the class, not an instance")

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: other code may set the variable, or count on the instance."""
        return Declined("who else sets or reads it is not in the code; keep it in a global, or pass it to `apply`")

    examples = (
        Example(
            name="surrogate-gradient",
            code="import torch\nfrom torch import nn\n"
            + _SCALED.replace("100.0 * x", "Spike.scale * x").replace("+ 1)", "+ 1)  # DYN623")
            + """

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        return Spike.apply(self.fc(x))
""",
            declined="a global",
        ),
        Example(
            name="uses",
            code=forward(
                """
                h = self.fc(x)
                h = h.clamp(max=Spike.scale)  # DYN623
                return h * Spike.scale  # DYN623
                """,
                head=_SCALED,
            ),
        ),
        Example(
            name="loop",
            code=forward(
                """
                h = self.fc(x)
                for _ in Spike.names:  # DYN623
                    h = h + 1
                return h
                """,
                head=_SCALED,
            ),
        ),
        Example(
            name="instance",
            code=forward(
                """
                return self.spike.apply(self.fc(x))  # DYN623
                """,
                head=_SCALED,
                init="self.fc = nn.Linear(8, 8)\nself.spike = Spike()",
            ),
        ),
        Example(
            name="class",
            code=forward(
                """
                h = Spike().apply(self.spike.apply(self.fc(x)))
                return (h, Spike.scale) if Spike.names is not None else h
                """,
                head=_SCALED,
                init="self.fc = nn.Linear(8, 8)\nself.spike = Spike",
            ),
        ),
    )


def _is_used(event: Read, project: Project) -> bool:
    """Whether something is done with what is read, and not only later: handing it on goes well."""
    parent = project.parents(event.function).get(event.node)
    if isinstance(parent, ast.Compare):
        return not all(isinstance(operator, (ast.Is, ast.IsNot)) for operator in parent.ops)
    if isinstance(parent, ast.keyword):
        parent = project.parents(event.function).get(parent)
    if isinstance(parent, ast.Call):
        callee = project.kinds(event.function).get(parent.func)
        return isinstance(callee, (k.External, k.Method, k.Object))
    if isinstance(parent, (ast.For, ast.comprehension)):
        return parent.iter is event.node
    if isinstance(parent, (ast.If, ast.While, ast.IfExp)):
        return parent.test is event.node
    return isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Attribute, ast.Subscript))
