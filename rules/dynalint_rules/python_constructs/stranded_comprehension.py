"""DYN720: a comprehension that Dynamo compiles by itself, and cannot."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Literal

from dynalint.analysis import kinds as k
from dynalint.analysis.comprehensions import COMPREHENSIONS, Comprehension
from dynalint.analysis.events import Event, Iteration
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward

_SHOWS: Literal["graph-break"] | None = "graph-break" if COMPREHENSIONS else None
# Whose iterators Dynamo does not go through where it finds one as an argument. It does through those of tuples,
# ranges and tensors.
_ITERATED = ("list", "set", "generator", "view", "torch.nn.ModuleList", "torch.nn.Sequential")
_HEAD = '''
def scaled(x: torch.Tensor) -> torch.Tensor:
    """Break the graph, on every way through."""
    return x * x.sum().item()  # DYN201 DYN804
'''


class StrandedComprehension(Rule):
    """Go through a list by a comprehension in a function that Dynamo gives up.

    ## What it flags

    `[layer(x) for layer in self.layers]` that uses a tensor from around it, in a function with a graph break in a loop,
    or with a loop that calls a function that breaks the graph. The break itself is flagged where it is. Not flagged:
    comprehensions over tuples, ranges and tensors; those with another break, or a call that may hold one, between them
    and the loop, since Dynamo has compiled what comes before it; and none where dynalint runs on Python 3.12 or later.

    ## Why

    After a break in a loop Dynamo gives up the function and compiles what the function calls, each by itself. Before
    Python 3.12 a comprehension is such a function, whose argument is an iterator that is already under way. Dynamo
    follows iterators only where it has seen them made, apart from those of tuples and ranges: it gives up the
    comprehension too, and its operations run uncompiled.

    ## Example

    ```python
    def forward(self, x):
        parts = [x * factor for factor in self.factors]
        for part in parts:
            print(part.sum().item())
        return torch.cat(parts)
    ```

    Use instead:

    ```python
    def forward(self, x):
        parts = [x * factor for factor in self.factors]
        return torch.cat(parts), torch.stack([part.sum() for part in parts])
    ```

    ## How it is rewritten

    It is not: better repair the break, which removes this finding too. Else go through a tuple.

    ## When the rewrite is not exact

    There is none.

    ## How Dynamo words it

    GB4347: `Missing tp_iternext`, in a frame called `<listcomp>`.

    ## References

    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb4347.html
    - https://peps.python.org/pep-0709/
    """

    code = "DYN720"
    name = "stranded-comprehension"
    summary = "a comprehension over a list is not compiled where Dynamo gives up the function around it"
    severity = "info"
    gb = ("GB4347",)
    events = (Iteration,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag a comprehension over what Dynamo does not take as an argument, if its function is given up."""
        assert isinstance(event, Iteration)
        node = _comprehension(event, project) if _is_opaque(event) else None
        if node is not None:
            yield Violation(
                node,
                "Dynamo gives up the function for a break in a loop, and cannot compile this comprehension by itself",
                help="repair the break in the loop, and this one goes with it",
                stranded=True,
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: the break is what to repair."""
        return Declined("repair the break in the loop; else go through a tuple")

    examples = (
        Example(
            name="break-in-a-loop",
            code=forward(
                """
                parts = [x * factor for factor in self.factors]  # DYN720
                total = 0.0
                for part in parts:
                    total += part.sum().item()  # DYN201
                return self.fc(x) * total
                """,
                init="self.fc = nn.Linear(8, 8)\nself.factors = [1, 2]",
            ),
            shows=_SHOWS,
        ),
        Example(
            name="called-in-a-loop",
            code=forward(
                """
                h = [layer(x) for layer in self.layers]  # DYN720
                for index in range(len(h)):
                    x = x + scaled(h[index])
                return x
                """,
                head=_HEAD,
                init="self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])",
            ),
            shows=_SHOWS,
        ),
        Example(
            name="tuple-and-range",
            code=forward(
                """
                h = [x * factor for factor in self.factors] + [x * factor for factor in range(2)]
                for part in h:
                    x = x + part.sum().item()  # DYN201
                return self.fc(x)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.factors = (1, 2)",
            ),
            shows="graph-break",
            gb=("GB0124",),
        ),
    )


def _comprehension(event: Iteration, project: Project) -> Comprehension | None:
    """The outermost comprehension whose first loop goes over the node of an event; none where it is no function."""
    if isinstance(event.statement, ast.For | ast.AsyncFor) and event.statement.iter is event.node:
        return None
    parents = project.parents(event.function)
    comprehension = parents.get(event.node)
    node = parents.get(comprehension) if isinstance(comprehension, ast.comprehension) else None
    if not isinstance(node, COMPREHENSIONS) or node.generators[0].iter is not event.node:
        return None
    around = parents.get(node)
    while around is not None and not isinstance(around, ast.stmt):
        if isinstance(around, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Lambda):
            return None
        around = parents.get(around)
    return node


def _is_opaque(event: Iteration) -> bool:
    """Whether Dynamo cannot go through what a comprehension is handed: the iterator of a list."""
    kind = event.kind
    if isinstance(event.node, ast.List):
        return any(isinstance(one, ast.Starred) for one in event.node.elts)  # else Python makes a tuple of it
    is_annotated = isinstance(kind, k.Sequence) and kind.home is not None and kind.home.type == "argument"
    return isinstance(kind, k.Sequence) and kind.type in _ITERATED and not is_annotated
