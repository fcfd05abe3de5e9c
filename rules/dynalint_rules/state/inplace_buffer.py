"""DYN505: a buffer that is changed in place and multiplied with what needs a gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, InplaceChange
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.autograd import product_with
from dynalint_rules._shared.examples import forward

_METHODS = frozenset(
    "iadd isub imul itruediv ipow add_ sub_ subtract_ mul_ multiply_ div_ divide_ true_divide_ neg_ negative_ pow_ "
    "square_ sqrt_ rsqrt_ exp_ log_ reciprocal_".split()
)


class InplaceBuffer(Rule):
    """Change a buffer in place and multiply with it, and get wrong gradients from compiled code.

    ## What it flags

    `self.n += 1`, `self.n.add_(1)`, `self.n.mul_(self.decay)` and other updates in place of a buffer, a parameter or a
    tensor attribute from numbers and other buffers, where the tensor, or what is computed from it, is a factor in a
    product, a quotient or a power with a tensor that may need a gradient. This is the form that counters are usually
    given for `torch.compile`.

    Not flagged: an update by assignment (`self.n = self.n + 1`), a buffer that is only added, compared, returned or not
    read at all, code under `torch.no_grad()`, and updates from the data, such as a moving average with `lerp_` or
    `copy_`: those keep the new value for the backward pass in the forms that were tried.

    ## Why

    For the backward pass the compiler keeps what is cheapest: the buffer, which is an input of the graph, rather than
    the new value that the forward pass has used. In the backward pass it adds one once more, to a buffer that has been
    written to by then. The output is right, the gradient belongs to a count that is one too high. Uncompiled code is
    right, and nothing is said. Seen with torch 2.11 and 2.13, on the backends aot_eager and inductor, on CPU and GPU.

    ## Example

    ```python
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, x):
        self.steps += 1
        return x * self.steps
    ```

    Use instead:

    ```python
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, x):
        self.steps = self.steps + 1
        return x * self.steps
    ```

    ## How it is rewritten

    It is not: after an assignment, `self.n = self.n + v` or `self.n = self.n.mul(0.9).add(v)`, whoever has kept the old
    tensor (an optimizer, a state dict that was not copied, a CUDA graph) no longer sees updates.

    ## When the rewrite is not exact

    There is no rewrite.

    ## How Dynamo words it

    It does not. The graphs are whole and `fullgraph=True` passes; only a comparison of gradients with uncompiled code
    shows it.

    ## References

    - https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer
    - https://github.com/pytorch/pytorch/pull/197039
    """

    code = "DYN505"
    name = "inplace-buffer"
    summary = "A buffer that is changed in place gives wrong gradients where it is a factor"
    category = "miscompile"
    events = (InplaceChange,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag updates in place whose result reaches a product that is differentiated."""
        assert isinstance(event, InplaceChange)
        if not _is_cheap(event, project):
            return
        factor = product_with(event, project)
        if factor is not None:
            yield Violation(
                event.statement,
                f"`self.{event.home.name}` is changed in place and is a factor in line {factor.lineno}: "
                "compiled code gets wrong gradients",
                help=f"Assign the new value: `self.{event.home.name} = self.{event.home.name} + ...`.",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: whoever has kept the tensor no longer sees updates after an assignment."""
        return Declined(
            "another name may hold the tensor; if none does, assign a new one: `self.n = self.n + 1` instead of "
            "`self.n += 1`"
        )

    examples = (
        Example(
            name="counter-as-factor",
            code=forward(
                """
                self.steps += 1  # DYN505
                return self.fc(x) * self.steps
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("steps", torch.tensor(0))',
            ),
        ),
        Example(
            name="method",
            code=forward(
                """
                if self.training:
                    self.seen.add_(x.shape[0])  # DYN505
                return self.fc(x) / self.seen.float().sqrt()
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("seen", torch.tensor(1))',
            ),
        ),
        Example(
            name="decay-from-another-buffer",
            code=forward(
                """
                with torch.no_grad():
                    self.gain.mul_(self.decay).add_(self.decay, alpha=0.5)  # DYN505
                return self.fc(x) * self.gain
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.register_buffer("gain", torch.ones(8))
                self.register_buffer("decay", torch.full((8,), 0.9))
                """,
            ),
        ),
        Example(
            name="by-way-of-a-variable",
            code=forward(
                """
                self.step -= 1 + 1  # DYN505
                correction = 1 - 0.9**self.step
                return self.fc(x) / correction
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("step", torch.tensor(20.0))',
            ),
        ),
        Example(
            name="in-a-helper",
            code="""
                import torch
                from torch import nn


                class Model(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.fc = nn.Linear(8, 8)
                        self.register_buffer("steps", torch.zeros(1))

                    def tick(self):
                        self.steps += 1  # DYN505

                    def forward(self, x):
                        self.tick()
                        return torch.mul(self.fc(x), self.steps)
            """,
        ),
        Example(
            name="parameter",
            code=forward(
                """
                with torch.no_grad():
                    self.scale.mul_(0.9)  # DYN505
                return self.fc(x) * self.scale
                """,
                init="self.fc = nn.Linear(8, 8)\nself.scale = nn.Parameter(torch.ones(8))",
            ),
        ),
        Example(
            name="second-name",
            code=forward(
                """
                steps = self.steps
                self.steps.add_(1)  # DYN505
                return self.fc(x) * steps
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("steps", torch.tensor(0))',
            ),
        ),
        Example(
            name="assigned",
            code=forward(
                """
                self.steps = self.steps + 1
                return self.fc(x) * self.steps
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("steps", torch.tensor(0))',
            ),
        ),
        Example(
            name="not-read",
            code=forward(
                """
                self.steps += 1
                return self.fc(x)
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("steps", torch.tensor(0))',
            ),
        ),
        Example(
            name="only-added",
            code=forward(
                """
                self.offset.add_(1)
                return self.fc(x) + self.offset
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("offset", torch.zeros(8))',
            ),
        ),
        Example(
            name="moving-average",
            code=forward(
                """
                if self.training:
                    self.mean.lerp_(x.detach().mean(0), 0.1)
                return self.fc(x) * self.mean
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("mean", torch.zeros(8))',
            ),
        ),
        Example(
            name="factor-on-the-other-side",
            code=forward(
                """
                if self.training:
                    scale = x.std(0)
                    self.scale.mul_(0.9)
                    self.scale.add_(0.1 * scale.detach())
                else:
                    scale = self.scale
                return self.fc(x) / scale
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("scale", torch.ones(8))',
            ),
            inputs="[(torch.randn(4, 8),)]",
        ),
        Example(
            name="factor-without-gradient",
            code=forward(
                """
                self.steps += 1
                bias = x.detach() * self.steps
                return self.fc(x) + bias
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("steps", torch.tensor(0))',
            ),
        ),
    )


def _is_cheap(event: InplaceChange, project: Project) -> bool:
    """Whether the update is computed from numbers and buffers alone, so that the compiler repeats it."""
    if event.method not in _METHODS:
        return False
    kinds = project.kinds(event.function)
    operands = [node for node in _operands(event) if not k.is_number(kinds.get(node, k.UNKNOWN))]
    for operand in operands:
        for node in walk(operand):
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                kind = kinds.get(node)
                if isinstance(kind, k.Tensor) and kind.origin != "buffer":
                    return False
            if isinstance(node, ast.Call) and k.may_be_tensor(kinds.get(node, k.UNKNOWN)):
                return False
    return True


def _operands(event: InplaceChange) -> list[ast.expr]:
    """Return what an update combines the tensor with: the right side, or all arguments of a chain of methods."""
    statement = event.statement
    if isinstance(statement, ast.AugAssign):
        return [statement.value]
    return [argument for call in _chain(statement) for argument in [*call.args, *(kw.value for kw in call.keywords)]]


def _chain(statement: ast.stmt) -> list[ast.Call]:
    """The calls of `owner.name.first_(a).second_(b)`, a statement of its own, outermost first; empty for others."""
    calls: list[ast.Call] = []
    node = statement.value if isinstance(statement, ast.Expr) else None
    while isinstance(node, ast.Call):
        if not (isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")):
            return []
        calls.append(node)
        node = node.func.value
    return calls if isinstance(node, ast.Attribute) else []
