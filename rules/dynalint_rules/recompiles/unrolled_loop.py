"""DYN803: a loop over the rows of a tensor, which is unrolled into the graph."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, Iteration
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward

_RANK = frozenset({"dim", "ndim", "ndimension"})


class UnrolledLoop(Rule):
    """Loop over the rows of a tensor, of which the graph holds the body once for each.

    ## What it flags

    `for row in x`, `for i in range(x.shape[0])`, `for t in range(len(x))` and comprehensions of these kinds, in code
    that Dynamo traces. Not flagged are loops over the number of dimensions, over `range` of a constant, and over
    what the module itself holds.

    ## Why

    Dynamo has no loops: it traces the body again for every round. Two hundred time steps of ten operations are two
    thousand operations to optimize. The number of rounds becomes a guard, so that another length is another graph,
    even with `dynamic=True`, and after eight lengths Dynamo gives the function up.

    With inputs of one size, and few rows, there is nothing wrong with it: this is advice.

    ## Example

    ```python
    def forward(self, x):
        return torch.stack([row / row.norm() for row in x])
    ```

    Use instead:

    ```python
    def forward(self, x):
        return x / x.flatten(1).norm(dim=1)[:, None]
    ```

    ## How it is rewritten

    It is not: only some loops are one operation on the whole tensor. `torch.vmap` makes one of a function of a row. A
    recurrence can keep its loop outside, with one compiled step.

    ## When the rewrite is not exact

    There is no rewrite.

    ## How Dynamo words it

    The recompile reason is a guard on the size, such as `tensor 'x' size mismatch at index 0. expected 4, actual 5`.

    ## References

    - https://docs.pytorch.org/docs/stable/torch.compiler_dynamic_shapes.html
    - https://docs.pytorch.org/docs/stable/generated/torch.vmap.html
    """

    code = "DYN803"
    name = "unrolled-loop"
    summary = "A loop over the rows of a tensor is unrolled, and another number of rows compiles anew"
    category = "advice"
    severity = "info"
    events = (Iteration,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag loops whose number of rounds is a size."""
        assert isinstance(event, Iteration)
        if _is_held(event):
            return
        if k.only_tensor(event.kind) is not None or _is_range_of_size(event):
            yield Violation(
                event.node,
                "the graph holds the body of this loop once for every row, and another number of rows compiles anew",
                help="Compute on the whole tensor, or compile the body alone.",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: only some loops are one operation."""
        return Declined(
            "only some loops are one operation on the whole tensor; write it as such an operation, use `torch.vmap`, "
            "or compile the body alone"
        )

    examples = (
        Example(
            name="rows",
            code="""
                import torch


                @torch.compile
                def total(x: torch.Tensor):
                    result = torch.zeros(8)
                    for row in x:  # DYN803
                        result = result + row * row
                    return result
            """,
            target="total",
            inputs="[(torch.ones(n, 8),) for n in range(2, 13)]",
            shows="recompile",
        ),
        Example(
            name="time-steps",
            code=forward(
                """
                h = torch.zeros_like(x[0])
                for t in range(x.shape[0]):  # DYN803
                    h = torch.tanh(self.fc(x[t]) + h)
                return h
                """
            ),
            inputs="[(torch.ones(n, 8),) for n in range(2, 13)]",
            shows="recompile",
        ),
        Example(
            name="comprehension",
            code=forward(
                """
                return torch.stack([self.fc(x[i]) for i in range(len(x))])  # DYN803
                """
            ),
            inputs="[(torch.ones(n, 8),) for n in range(2, 13)]",
            shows="recompile",
        ),
        Example(
            name="as-often-as-the-module-says",
            code=forward(
                """
                for row in self.scales:
                    x = x * row
                for i in range(self.number):
                    x = self.fc(x) + self.scales[i]
                return x
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.register_buffer("scales", torch.ones(2, 8))
                self.number = len(self.scales)
                """,
            ),
        ),
        Example(
            name="over-the-dimensions",
            code=forward(
                """
                for dim in range(x.dim()):
                    x = x.flip(dim)
                return self.fc(x)
                """
            ),
        ),
        Example(
            name="whole-tensor",
            code=forward(
                """
                for _ in range(3):
                    x = self.fc(x) / x.norm(dim=1)[:, None]
                return x
                """
            ),
        ),
    )


def _is_held(event: Iteration) -> bool:
    """Whether a loop goes over what the module holds, or as often as that says: another module, another graph."""
    function = event.function.node
    names = {node.id for node in walk(event.node) if isinstance(node, ast.Name)} - {"range", "len", "reversed"}
    is_method = event.function.owner is not None and "staticmethod" not in event.function.decorators
    own = function.args.args[0].arg if is_method and function.args.args else None
    return names == {own}


def _is_range_of_size(event: Iteration) -> bool:
    """Whether a loop goes over a range that ends at the size of a dimension."""
    kind = event.kind
    if not isinstance(kind, k.Sequence) or kind.type != "range" or not isinstance(event.node, ast.Call):
        return False
    is_size = isinstance(kind.element, k.Value) and kind.element.source == "shape"
    return is_size and not any(_is_rank(node) for argument in event.node.args for node in walk(argument))


def _is_rank(node: ast.AST) -> bool:
    """Whether an expression is about the number of dimensions: `x.dim()`, `x.ndim`, `len(x.shape)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and node.args:
        measured = node.args[0]
        measured = measured.func if isinstance(measured, ast.Call) else measured
        return isinstance(measured, ast.Attribute) and measured.attr in ("shape", "size")
    return isinstance(node, ast.Attribute) and node.attr in _RANK
