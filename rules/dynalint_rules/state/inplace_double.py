"""DYN506: a 0-dim float64 tensor of a module, changed in place by a method."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis.events import Event, InplaceChange
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.making import makers

_DOUBLE = frozenset({"float64", "double"})


class InplaceDouble(Rule):
    """Change a float64 tensor without dimensions in place, and lose the change in compiled code.

    ## What it flags

    `self.total.add_(v)`, `copy_`, `fill_`, `mul_` and every other method that works in place, on a buffer or tensor
    attribute that is made as a float64 tensor without dimensions: `torch.tensor(0.0, dtype=torch.float64)`,
    `torch.zeros((), dtype=torch.double)`.

    Not flagged: `self.total += v`, which also assigns the attribute, and tensors of another dtype or with dimensions.

    ## Why

    Dynamo takes a float64 tensor without dimensions for a Python float that was wrapped for the graph, and its change
    never reaches the tensor that the module holds. The attribute keeps its old value, call after call, and code that
    reads it in the same graph sees the old value too. Nothing breaks and nothing is said. Seen with torch 2.11 and
    2.13, on the backends aot_eager and inductor.

    ## Example

    ```python
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.tensor(0.0, dtype=torch.float64))

    def forward(self, x):
        self.total.add_(x.shape[0])
        return x * 2
    ```

    Use instead:

    ```python
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.tensor(0.0, dtype=torch.float64))

    def forward(self, x):
        self.total = self.total + x.shape[0]
        return x * 2
    ```

    ## How it is rewritten

    It is not: after an assignment, `self.n = self.n + v` or `self.n = self.n.mul(0.9).add(v)`, whoever has kept the old
    tensor (an optimizer, a state dict that was not copied, a CUDA graph) no longer sees updates.

    ## When the rewrite is not exact

    There is no rewrite.

    ## How Dynamo words it

    It does not. The graphs are whole and `fullgraph=True` passes; only a comparison of the state with uncompiled code
    shows it.

    ## References

    - https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer
    """

    code = "DYN506"
    name = "inplace-double"
    summary = "An in-place change of a float64 tensor without dimensions is lost in compiled code"
    category = "miscompile"
    events = (InplaceChange,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag methods that work in place on such a tensor."""
        assert isinstance(event, InplaceChange)
        made = list(makers(event, project)) if event.method.endswith("_") else []
        if any(_makes_double(node) for statement in made for node in walk(statement)):
            yield Violation(
                event.statement,
                f"`{event.method}` on `self.{event.home.name}`, a float64 tensor without dimensions, "
                "is lost in compiled code",
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
            name="running-total",
            code=forward(
                """
                self.total.add_(x.shape[0])  # DYN506
                return self.fc(x)
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.register_buffer("total", torch.tensor(0.0, dtype=torch.float64))
                """,
            ),
        ),
        Example(
            name="moving-average",
            code=forward(
                """
                h = self.fc(x)
                with torch.no_grad():
                    self.mean.mul_(0.9).add_(h.mean(), alpha=0.1)  # DYN506
                return h + self.mean
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.register_buffer("mean", torch.zeros((), dtype=torch.double))
                """,
            ),
        ),
        Example(
            name="copied-into",
            code=forward(
                """
                h = self.fc(x)
                self.last.copy_(h.detach().mean())  # DYN506
                return h
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.register_buffer("last", torch.zeros([], dtype=torch.float64))
                """,
            ),
        ),
        Example(
            name="operator-assigns-too",
            code=forward(
                """
                self.total += x.shape[0]
                return self.fc(x)
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.register_buffer("total", torch.tensor(0.0, dtype=torch.float64))
                """,
            ),
        ),
        Example(
            name="single-precision",
            code=forward(
                """
                self.total.add_(x.shape[0])
                return self.fc(x)
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("total", torch.tensor(0.0))',
            ),
        ),
        Example(
            name="one-dimension",
            code=forward(
                """
                self.total.add_(x.shape[0])
                return self.fc(x)
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.register_buffer("total", torch.zeros(1, dtype=torch.float64))
                """,
            ),
        ),
    )


def _makes_double(node: ast.AST) -> bool:
    """Whether an expression makes a float64 tensor without dimensions."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    dtypes = [keyword.value for keyword in node.keywords if keyword.arg == "dtype"]
    if not any(isinstance(dtype, ast.Attribute) and dtype.attr in _DOUBLE for dtype in dtypes):
        return False
    first = node.args[0] if node.args else None
    if node.func.attr in ("tensor", "scalar_tensor"):
        return isinstance(first, ast.Constant | ast.UnaryOp)
    return (
        node.func.attr in ("zeros", "ones", "empty", "full")
        and isinstance(first, ast.Tuple | ast.List)
        and not first.elts
    )
