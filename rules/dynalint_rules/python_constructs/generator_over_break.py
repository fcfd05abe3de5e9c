"""DYN719: a generator expression whose elements break the graph."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, Iteration
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.kinds import UNKNOWN, Kind
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward

_HEAD = '''
def scaled(row: torch.Tensor) -> torch.Tensor:
    """Break the graph, on every way through."""
    return row * row.sum().item()  # DYN201 DYN804


def mean(rows):
    """Return the mean of what an iterator gives."""
    rows = iter(rows)
    total, count = next(rows), 1
    for row in rows:
        total, count = total + row, count + 1
    return total / count
'''
_SHAPES = "[(torch.randn(4, 8),), (torch.randn(4, 8),)]"


class GeneratorOverBreak(Rule):
    """Hand on a generator expression whose elements break the graph.

    ## What it flags

    `sum(loss(row) for row in rows)`, and such a generator handed to a function of yours, where `loss`, or the function
    that it is handed to, breaks the graph on every way through it. The break itself is flagged where it is. Not
    flagged: list comprehensions, generators whose elements are traced, and calls in loops and in `try`, whose function
    is given up in any case.

    ## Why

    At a break Dynamo stores what is under way, calls the function that breaks, and goes on after it. It cannot store a
    generator that has come half way. So it gives up the whole function that holds the generator, with all that
    comes before and after, where a list would cost no more than the break.

    ## Example

    ```python
    def forward(self, x, target):
        h = self.fc(x)
        return sum(loss(row, one) for row, one in zip(h, target))  # `loss` breaks the graph
    ```

    Use instead:

    ```python
    def forward(self, x, target):
        h = self.fc(x)
        return sum([loss(row, one) for row, one in zip(h, target)])
    ```

    ## How it is rewritten

    It is not: better repair the break, which removes this finding too. Else write brackets.

    ## When the rewrite is not exact

    A list computes all elements before the first is used, and holds them at once.

    ## How Dynamo words it

    GB8335: `Generator reconstruction with mutations`.

    ## References

    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb8335.html
    """

    code = "DYN719"
    name = "generator-over-break"
    summary = "a generator whose elements break the graph costs the whole function"
    gb = ("GB8335",)
    events = (Iteration,)
    gives_up = True

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call that gets a generator, if what it calls for the elements breaks the graph."""
        parents = project.parents(event.function)
        call = _handed_to(event.node, parents)
        if call is None or _is_given_up(call, parents):
            return
        kinds = project.kinds(event.function)
        taker = kinds.get(call.func, UNKNOWN)
        takers = [*_functions(taker, project)]
        if not takers and taker != k.External("builtins.sum"):
            return
        inside = [one for one in walk(call.args[0]) if isinstance(one, ast.Call)]
        called = [one for node in inside for one in _functions(kinds.get(node.func, UNKNOWN), project)]
        within = tuple(dict.fromkeys([*called, *takers]))
        if within:
            message = "the graph breaks while this generator is under way, which makes Dynamo give up the function"
            yield Violation(call, message, help="hand on a list, or repair the break", within=within)

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: the break is what to repair."""
        return Declined("repair the break; else hand on a list, which computes all elements before the first is used")

    examples = (
        Example(
            name="sum",
            code=forward(
                """
                h = self.fc(x)
                return sum(scaled(row) for row in h)  # DYN719 DYN803
                """,
                head=_HEAD,
            ),
            inputs=_SHAPES,
            declined="hand on a list",
        ),
        Example(
            name="handed-on",
            code=forward(
                """
                h = self.fc(x)
                return mean(scaled(row + one) for row, one in zip(h, x))  # DYN719
                """,
                head=_HEAD,
            ),
            inputs=_SHAPES,
        ),
        Example(
            name="taker-breaks",
            code=forward(
                """
                h = self.fc(x)
                return told(row * 2 for row in h)  # DYN719 DYN803
                """,
                head='''
                def told(rows):
                    """Return a sum, and say so."""
                    print("sum")  # DYN401
                    return sum(rows)
                ''',
            ),
            inputs=_SHAPES,
        ),
        Example(
            name="list",
            code=forward(
                """
                h = self.fc(x)
                return mean([scaled(row) for row in h])  # DYN803
                """,
                head=_HEAD,
            ),
            inputs=_SHAPES,
            shows="graph-break",
            gb=("GB0124",),
        ),
        Example(
            name="traced",
            code=forward(
                """
                h = self.fc(x)
                return sum(torch.relu(row) for row in h)  # DYN803
                """
            ),
            inputs=_SHAPES,
        ),
    )


def _handed_to(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> ast.Call | None:
    """The call whose first argument is the generator expression that goes over `node`."""
    comprehension = parents.get(node)
    generator = parents.get(comprehension) if isinstance(comprehension, ast.comprehension) else None
    if not isinstance(generator, ast.GeneratorExp) or generator.generators[0].iter is not node:
        return None
    call = parents.get(generator)
    return call if isinstance(call, ast.Call) and call.args[:1] == [generator] else None


def _is_given_up(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Whether a node stands where Dynamo does not resume after any break."""
    around = parents.get(node)
    while around is not None and not isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(around, ast.For | ast.While | ast.Try | ast.With | ast.comprehension | ast.Lambda):
            return True
        around = parents.get(around)
    return False


def _functions(kind: Kind, project: Project) -> Iterator[FunctionInfo]:
    """The functions of the project that calling `kind` runs."""
    for one in kind.members:
        if isinstance(one, k.Function):
            yield one.function
        elif isinstance(one, k.Instance):
            method = project.find_method(one.cls, "forward" if project.is_module_class(one.cls) else "__call__")
            if method is not None:
                yield method
