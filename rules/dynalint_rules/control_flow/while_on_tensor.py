"""DYN102: a `while` loop whose condition is a tensor."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Branch, Event
from dynalint.analysis.project import Project
from dynalint.analysis.source import quote
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.decide import rewrite_decision
from dynalint_rules._shared.decision import Decision, asks_tensor, decision_of, operand_of, thing
from dynalint_rules._shared.examples import forward


class WhileOnTensor(Rule):
    """Dynamo unrolls loops as it traces them. Where a tensor decides when to stop, it has nothing to go by.

    ## What it flags

    A `while` loop whose condition is a tensor, alone or as an operand of `and`, `or` and `not`: iterate until it
    converges, until all have finished, until the norm is small enough. Each operand that is a tensor is flagged by
    itself.

    Not flagged are loops over counters, shapes and Python containers, which Dynamo unrolls, and loops whose condition
    is `t.item()`, which break at `.item()` and belong to DYN201.

    ## Why

    The number of rounds is known only when the code runs. Dynamo ends the graph at the condition, and for each round it
    leaves a part of the function to Python, tests the tensor there and comes back to compiled code: on a GPU every
    round waits for the result of the test.

    ## Example

    ```python
    def forward(self, x):
        while x.norm() > 1:
            x = x / 2
        return x
    ```

    Use instead, where a bound on the rounds is known:

    ```python
    def forward(self, x):
        for _ in range(16):
            x = torch.where(x.norm() > 1, x / 2, x)
        return x
    ```

    ## How it is rewritten

    It is not: a bound on the number of rounds is knowledge that the code does not hold. A fixed number of rounds is
    exact as long as it is never too small, and costs that many rounds in every call. Keeping the loop outside the
    compiled code, around a compiled body, is often the best way. `torch.while_loop`, a prototype, needs no bound.

    ## When the rewrite is not exact

    A loop of fixed length, by hand, computes more rounds than the original; what is done has to be kept as it is.

    ## How Dynamo words it

    GB0170, "Data-dependent branching": "Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). Dynamo does
    not support tracing dynamic control flow."

    ## References

    - https://docs.pytorch.org/docs/stable/generated/torch.where.html
    - https://docs.pytorch.org/docs/stable/higher_order_ops/while_loop.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html
    """

    code = "DYN102"
    name = "while-on-tensor"
    summary = "Loop until the data of a tensor says stop"
    gb = ("GB0170",)
    events = (Branch,)

    examples = (
        Example(
            "until it is small",
            forward("""
                while x.norm() > 1:  # DYN102
                    x = x / 2
                return x
            """),
        ),
        Example(
            "bounded by a counter as well",
            forward("""
                rounds = 0
                while rounds < 4 and x.abs().max() > 1:  # DYN102
                    x = x / 2
                    rounds += 1  # one more
                return x
            """),
        ),
        Example(
            "not, over two lines",
            forward("""
                while (
                    not (x.sum() < 0)  # DYN102
                    or x.max() > 3  # DYN102
                ):
                    x = x - 1
                return x
            """),
        ),
        Example(
            "in a helper",
            forward(
                "return self.fc(shrink(x))",
                head="""
                def shrink(y):
                    while torch.any(y > 1):  # DYN102
                        y = y / 2
                    return y
                """,
            ),
        ),
        Example(
            "while with else",
            forward("""
                while (x > 1).any():  # DYN102
                    x = x / 2
                else:
                    x = x + 1
                return x
            """),
        ),
        Example(
            "counter",
            forward("""
                rounds = 0
                while rounds < 3 and x.shape[0] > 1:
                    x = x / 2
                    rounds += 1
                return x
            """),
        ),
        Example(
            "shape and container",
            forward("""
                parts = [x, x * 2]
                while parts:
                    x = x + parts.pop()
                while x.shape[-1] > 2:
                    x = x[..., ::2]
                return x
            """),
        ),
        Example(
            "fixed number of rounds",
            forward("""
                for _ in range(4):
                    x = torch.where(x.norm() > 1, x / 2, x)
                return x
            """),
        ),
        Example(
            "loop that is not compiled",
            forward(
                """
                if not torch.compiler.is_compiling():
                    while x.norm() > 1:
                        x = x / 2
                return x + 1
                """
            ),
        ),
    )

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the operands of `while` conditions."""
        operand = operand_of(event)
        if operand is None or not isinstance(event, Branch) or event.form in ("in", "chained-comparison"):
            return
        decision: Decision = decision_of(project.parents(event.function), operand)
        if decision.form == "while" and asks_tensor(event, project):
            shown = quote(event.function.file, operand)
            message = f"{shown} is {thing(event.kind)}: Dynamo cannot know how often this `while` goes round"
            yield Violation(operand, message, help="Run a fixed number of rounds and let `torch.where` end them.")

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: nobody knows how many rounds there are."""
        operand = operand_of(event)
        return None if operand is None else rewrite_decision(event, operand, project, value="it decides nothing here")
