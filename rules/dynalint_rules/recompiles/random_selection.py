"""DYN806: elements that a random mask selects, another number in each call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, Subscript
from dynalint.analysis.index import FunctionNode
from dynalint.analysis.project import Project
from dynalint.rules import Example, Rule, Violation
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.selection import reads_by_mask
from dynalint_rules._shared.settings import captures_shapes

_DRAWING = frozenset(
    [f"torch.{name}" for name in "rand randn randint bernoulli normal rand_like randn_like randint_like".split()]
    + [f"Tensor.{name}" for name in "bernoulli bernoulli_ uniform_ normal_ random_ exponential_".split()]
)
# A function that spells none of them draws nothing, and need not be searched any further.
_DRAWN = re.compile("|".join(sorted({re.escape(name.rpartition(".")[2]) for name in _DRAWING})))
# What takes part in choosing a number of elements that is the same each time.
_COUNTED = frozenset({"topk", "kthvalue", "sort", "argsort", "quantile", "median", "randperm"})


class RandomSelection(Rule):
    """Select elements by a mask that is drawn at random, so that what follows is compiled again for another number.

    ## What it flags

    `x[mask]`, and `x[mask] += 1`, where the mask comes from `torch.rand`, `torch.randint`, `torch.bernoulli` and the
    like in the same function. The line is also flagged for the break (DYN301, DYN302); this is the other half of the
    price.

    Not flagged are masks that are computed from the input, of which only the data tell whether the number differs,
    masks made by `topk`, `sort` or `randperm`, which choose as many elements each time, and functions that Dynamo gives
    up as a whole, because the read stands in a loop or a `try`.

    ## Why

    The read ends a graph, and what it gives is an argument of the code behind it. Dynamo compiles that for the first
    number of elements, and again, with the number as a variable, as soon as it is another. With a mask that is drawn
    anew in each call that is the second one.

    ## Example

    ```python
    def forward(self, x):
        keep = torch.rand(len(x)) < 0.9
        return self.fc(x[keep]).mean()
    ```

    Use instead:

    ```python
    def forward(self, x):
        keep = torch.rand(len(x), 1) < 0.9
        return torch.where(keep, self.fc(x), 0).sum() / keep.sum()
    ```

    ## How it is rewritten

    By the fix for the read itself (DYN301, DYN302), where there is one: the full shape has neither break nor
    recompilation. `torch.randperm(n)[:k]` draws a selection of fixed size.

    ## When the rewrite is not exact

    See there.

    ## How Dynamo words it

    The recompile reason is about the argument of a function called `torch_dynamo_resume_in_forward_at_12`, such as
    "tensor '___stack0' size mismatch at index 0. expected 34, actual 32".

    ## References

    - https://docs.pytorch.org/docs/stable/compile/programming_model.recompilation.html
    """

    code = "DYN806"
    name = "random-selection"
    summary = "A random mask selects another number of elements in each call, and the code after it compiles again"
    category = "recompile"
    severity = "info"
    events = (Subscript,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag reads by a mask that the function draws."""
        assert isinstance(event, Subscript)
        if not reads_by_mask(event) or event.position.loop or event.position.try_ or captures_shapes(project):
            return
        node = event.function.node
        if not any(map(_DRAWN.search, event.function.file.lines[node.lineno - 1 : node.end_lineno])):
            return
        try:
            calls = set(_calls(Scope.of(event, project), event.node.slice, set(), _assigned(node)))
        except Refusal:
            return
        if calls & _DRAWING and not any(name.rpartition(".")[2] in _COUNTED for name in calls):
            yield Violation(
                event.node,
                "a random mask selects another number of elements in each call, and what follows is compiled again",
                help="Keep the full shape with `torch.where`, or draw a selection of fixed size by `torch.randperm`.",
            )

    examples = (
        Example(
            name="random-rows",
            code=forward(
                """
                keep = torch.rand(1000) < 0.5
                rows = x.repeat(250, 1)[keep]  # DYN301 DYN806
                return self.fc(rows).mean()
                """
            ),
            shows="recompile-once",
        ),
        Example(
            name="random-shift",
            code=forward(
                """
                index = torch.randint(0, 9, (1000,))
                index[index >= 4] += 1  # DYN302 DYN806
                return self.fc(x) * index.sum()
                """
            ),
            shows="recompile-once",
        ),
        Example(
            name="selection-of-fixed-size",
            code=forward(
                """
                noise = torch.rand(1000)
                keep = noise <= noise.kthvalue(500).values
                rows = x.repeat(250, 1)[keep]  # DYN301
                return self.fc(rows).mean()
                """
            ),
            shows="graph-break",
            gb=("GB0036",),
        ),
        Example(
            name="mask-of-the-input",
            code=forward(
                """
                return self.fc(x[x.sum(1) > -1000]).mean()  # DYN301
                """
            ),
            shows="graph-break",
            gb=("GB0036",),
        ),
        Example(
            name="mask-by-the-size-of-noise",
            code=forward(
                """
                noise = x + torch.randn(x.shape)
                first = torch.arange(noise.shape[0], device=noise.device) < 2
                return self.fc(x[first]).mean() + noise.sum()  # DYN301
                """
            ),
            shows="graph-break",
            gb=("GB0036",),
        ),
        Example(
            name="full-shape",
            code=forward(
                """
                keep = torch.rand(4, 1) < 0.5
                return torch.where(keep, self.fc(x), 0.0).mean()
                """
            ),
        ),
    )


def _calls(scope: Scope, node: ast.AST, seen: set[str], assigned: Mapping[str, list[ast.expr]]) -> Iterator[str]:
    """Yield the dotted names of all calls that an expression is computed by, through local names.

    A size, a device or another plain number tells nothing of what the tensor holds that it is asked of.
    """
    kind = scope.kind(node) if isinstance(node, ast.expr) else None
    if isinstance(kind, k.Value) and kind.source != "data":
        return
    if isinstance(node, ast.Call):
        yield callee(scope, node) or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
    elif isinstance(node, ast.Name) and node.id not in seen:
        seen.add(node.id)
        for value in assigned.get(node.id, ()):
            yield from _calls(scope, value, seen, assigned)
    for child in ast.iter_child_nodes(node):
        yield from _calls(scope, child, seen, assigned)


def _assigned(function: FunctionNode) -> Mapping[str, list[ast.expr]]:
    """Return what the local names of a function are set to."""
    found: dict[str, list[ast.expr]] = {}
    for node in (one for one in ast.walk(function) if isinstance(one, ast.Assign)):
        for target in (one for one in node.targets if isinstance(one, ast.Name)):
            found.setdefault(target.id, []).append(node.value)
    return found
