"""DYN802: a loop whose number of rounds the caller decides."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, Iteration
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Example, Rule, Violation
from dynalint_rules._shared.examples import forward


class ArgumentDecidesRounds(Rule):
    """Loop as often as an argument of the compiled function says, so that each number of rounds has its own graph.

    ## What it flags

    `for _ in range(n)`, where `n` is an argument of the function that is compiled, and a loop over an argument that is
    a list or tuple (declared so). Not flagged is an argument that compiled code passes on: what stands there decides.

    ## Why

    A number that is only computed with becomes a variable of the graph after one recompilation. A number of rounds
    cannot: the loop is unrolled, and Dynamo guards on the number, or on the length of the list. A caller that brings
    nine different ones gets eight graphs and then eager code. Where it is always the same, nothing is wrong.

    ## Example

    ```python
    @torch.compile
    def refine(x, steps: int):
        for _ in range(steps):
            x = step(x)
        return x
    ```

    Use instead:

    ```python
    step = torch.compile(step)

    def refine(x, steps: int):
        for _ in range(steps):
            x = step(x)
        return x
    ```

    ## How it is rewritten

    It is not. Compile the body and leave the loop outside, or pass a list of tensors as one stacked tensor.

    ## When the rewrite is not exact

    There is no rewrite.

    ## How Dynamo words it

    The recompile reason is `steps == 3`, or `len(xs) == 3` for a list.

    ## References

    - https://docs.pytorch.org/docs/stable/compile/programming_model.recompilation.html
    """

    code = "DYN802"
    name = "argument-decides-rounds"
    summary = "An argument decides how often a loop runs, and each number of rounds has its own graph"
    category = "advice"
    severity = "info"
    events = (Iteration,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag loops over arguments of outermost compiled functions."""
        assert isinstance(event, Iteration)
        if event.function.caller is not None or not isinstance(event.kind, k.Sequence):
            return
        name = _argument(event.node, event.kind)
        if name is not None and _is_passed_in(name, event.function):
            yield Violation(
                event.node,
                f"the caller's `{name}` decides how often this loop runs, and each number of rounds has its own graph",
                help="Compile the body of the loop, and leave the loop to the caller.",
            )

    examples = (
        Example(
            name="rounds",
            code="""
                import torch


                @torch.compile
                def refine(x: torch.Tensor, steps: int):
                    for _ in range(steps):  # DYN802
                        x = x * 0.9 + 1
                    return x
            """,
            target="refine",
            inputs="[(torch.ones(8), n) for n in range(2, 13)]",
            shows="recompile",
        ),
        Example(
            name="list-of-tensors",
            code=forward(
                """
                total = 0
                for x in xs:  # DYN802
                    total = total + self.fc(x)
                return total
                """,
                arguments="xs: list[torch.Tensor]",
            ),
            inputs="[([torch.ones(4, 8)] * n,) for n in range(2, 13)]",
            shows="recompile",
        ),
        Example(
            name="computed-with",
            code="""
                import torch


                @torch.compile
                def scale(x: torch.Tensor, steps: int):
                    for _ in range(3):
                        x = x * steps
                    return x
            """,
            target="scale",
            inputs="[(torch.ones(8), n) for n in range(2, 13)]",
        ),
        Example(
            name="decided-by-compiled-code",
            code="""
                import torch


                def refine(x: torch.Tensor, steps: int):
                    for _ in range(steps):
                        x = x * 0.9 + 1
                    return x


                @torch.compile
                def solve(x: torch.Tensor):
                    return refine(refine(x, 3), 2)
            """,
            target="solve",
            inputs="[(torch.ones(8),)]",
        ),
    )


def _argument(node: ast.expr | ast.stmt, kind: k.Sequence) -> str | None:
    """The name that a loop over `range(name)` or over `name` itself depends on."""
    if isinstance(node, ast.Name) and kind.type in ("list", "tuple") and kind.items is None:
        return node.id
    if isinstance(node, ast.Call) and kind.type == "range" and node.args:
        last = node.args[min(1, len(node.args) - 1)]
        return last.id if isinstance(last, ast.Name) else None
    return None


def _is_passed_in(name: str, function: FunctionInfo) -> bool:
    """Whether a name is a parameter that the function does not set itself."""
    arguments = function.node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return any(one.arg == name for one in named) and not any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for node in walk(function.node)
    )
