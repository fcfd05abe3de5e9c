"""DYN806: elements that a mask selects, another number in each call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, Subscript
from dynalint.analysis.index import FunctionNode
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
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
_COUNTED = frozenset({"topk", "kthvalue", "sort", "argsort", "quantile", "median", "randperm", "arange"})


# What makes a tensor of the shape of another, whatever that holds.
_MADE_LIKE = re.compile(r"_like$|(^|\.)new_")
# Two tests of which one holds just where the other does not, but for NaN.
_OPPOSITE: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}


class VaryingSelection(Rule):
    """Select another number of elements in each call, so that what follows is compiled again.

    ## What it flags

    `x[mask]`, and `x[mask] += 1`, where the mask comes from `torch.rand`, `torch.randint`, `torch.bernoulli` and the
    like in the same function; and a tensor that a bound takes apart, `low = x[d < t]` and `high = x[d >= t]`, where
    `d` is computed from an argument and both are kept under a name: code that deals with both parts is made for data of
    which now more, now fewer elements are in either. The line is also flagged for the break (DYN301, DYN302); this is
    the other half of the price.

    Not flagged are other masks that are computed from the input, of which only the data tell whether the number
    differs, masks made by `topk`, `sort`, `randperm` or `arange`, which choose as many elements each time, and
    functions that Dynamo gives up as a whole, because the read stands in a loop or a `try`.

    ## Why

    The read ends a graph, and what it gives is an argument of the code behind it. Dynamo compiles that for the first
    number of elements, and again, with the number as a variable, as soon as it is another. With a mask that is drawn
    anew in each call that is the second one, and with a bound in the midst of the data the second batch.

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
    name = "varying-selection"
    summary = "A mask selects another number of elements in each call, and the code after it compiles again"
    category = "recompile"
    severity = "info"
    events = (Subscript,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag reads by a mask that the function draws, or that takes a tensor apart together with another read."""
        assert isinstance(event, Subscript)
        if (
            not reads_by_mask(event)
            or event.position.loop
            or event.position.try_
            or captures_shapes(project, event.function)
        ):
            return
        if _is_drawn(event, project):
            yield Violation(
                event.node,
                "a random mask selects another number of elements in each call, and what follows is compiled again",
                help="Keep the full shape with `torch.where`, or draw a selection of fixed size by `torch.randperm`.",
            )
        elif (part := _other_part(event, project)) is not None:
            rest = ast.unparse(part)
            yield Violation(
                event.node,
                f"how much is in this part and how much in `{rest}` differs from call to call, and what follows is "
                "compiled again",
                help="Keep the full shape, compute both and choose with `torch.where`.",
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
            name="taken-apart",
            code=forward(
                """
                y = self.fc(x)
                low = y[x < 0.5]  # DYN301 DYN806
                high = y[x >= 0.5]  # DYN301 DYN806
                return low.sum() + high.abs().sum()
                """
            ),
            inputs="[(torch.ones(4, 8).triu(),), (torch.ones(4, 8).triu(1),), (torch.ones(4, 8).triu(2),)]",
            shows="recompile-once",
        ),
        Example(
            name="taken-apart-by-a-name",
            code=forward(
                """
                y = self.fc(x)
                on = x > 0.5
                high = y[on]  # DYN301 DYN806
                low = y[~on]  # DYN301 DYN806
                return low.sum() + high.abs().sum()
                """
            ),
            inputs="[(torch.ones(4, 8).triu(),), (torch.ones(4, 8).triu(1),), (torch.ones(4, 8).triu(2),)]",
            shows="recompile-once",
        ),
        Example(
            name="taken-apart-by-place",
            code=forward(
                """
                y = self.fc(x)
                place = torch.arange(4)
                low = y[place < 2]  # DYN301
                high = y[place >= 2]  # DYN301
                return low.sum() + high.abs().sum()
                """
            ),
            shows="graph-break",
            gb=("GB0036",),
        ),
        Example(
            name="taken-apart-by-a-buffer",
            code=forward(
                """
                y = self.fc(x).sum(0)
                low = y[self.scale < 0.5]  # DYN301
                high = y[self.scale >= 0.5]  # DYN301
                return low.sum() + high.abs().sum()
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.register_buffer("scale", torch.linspace(0, 1, 8))
                """,
            ),
            shows="graph-break",
            gb=("GB0036",),
        ),
        Example(
            name="taken-apart-by-a-window",
            code=forward(
                """
                y = self.fc(x).sum(0)
                window = torch.linspace(0, 1, y.shape[0], device=y.device)
                mask = window > torch.full_like(y, 0.5)
                low = y[mask]  # DYN301
                high = y[~mask]  # DYN301
                return low.sum() + high.abs().sum()
                """
            ),
            shows="graph-break",
            gb=("GB0036",),
        ),
        Example(
            name="two-parts-that-leave-some-out",
            code=forward(
                """
                y = self.fc(x)
                low = y[x < -1000]  # DYN301
                high = y[x > -1000]  # DYN301
                return low.sum() + high.abs().sum()
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


def _is_drawn(event: Subscript, project: Project) -> bool:
    """Whether random numbers decide about a mask, and how many elements it selects."""
    node = event.function.node
    if not any(map(_DRAWN.search, event.function.file.lines[node.lineno - 1 : node.end_lineno])):
        return False
    calls, _ = _behind_mask(event, project)
    return bool(calls & _DRAWING) and not _is_counted(calls)


def _other_part(event: Subscript, project: Project) -> ast.expr | None:
    """Return the read of what this one leaves of a tensor that a bound takes apart, if both are kept under a name."""
    if not (isinstance(event.statement, ast.Assign) and event.statement.value is event.node):
        return None
    assigned = _assigned(event.function.node)
    wanted = _opposite(event.node.slice, assigned)
    calls, names = _behind_mask(event, project)
    arguments = {one.arg for one in walk(event.function.node.args) if isinstance(one, ast.arg)} - {"self"}
    if wanted is None or _is_counted(calls) or not names & arguments:
        return None
    reads = (value for values in assigned.values() for value in values if isinstance(value, ast.Subscript))
    base = ast.dump(event.node.value)
    return next((one for one in reads if ast.dump(one.value) == base and ast.unparse(one.slice) == wanted), None)


def _opposite(mask: ast.expr, assigned: Mapping[str, list[ast.expr]]) -> str | None:
    """Return the mask that selects what this one does not, in words; None if this one is no comparison by a bound."""
    if isinstance(mask, ast.Compare) and len(mask.ops) == 1 and type(mask.ops[0]) in _OPPOSITE:
        return ast.unparse(ast.Compare(mask.left, [_OPPOSITE[type(mask.ops[0])]()], mask.comparators))
    inverted = isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert)
    name = mask.operand if isinstance(mask, ast.UnaryOp) else mask
    if not isinstance(name, ast.Name):
        return None
    values = assigned.get(name.id, ())
    known = len(values) == 1 and _opposite(values[0], {}) is not None
    return (name.id if inverted else f"~{name.id}") if known else None


def _behind_mask(event: Subscript, project: Project) -> tuple[set[str], set[str]]:
    """Return the dotted names of the calls, and the names, that a mask is computed by; none where that is not known."""
    try:
        scope = Scope.of(event, project)
        found = list(_behind(scope, event.node.slice, set(), _assigned(event.function.node)))
    except Refusal:
        return set(), set()
    calls = {_called(scope, one) for one in found if isinstance(one, ast.Call)}
    return calls, {one.id for one in found if isinstance(one, ast.Name)}


def _is_counted(calls: Iterable[str]) -> bool:
    return any(name.rpartition(".")[2] in _COUNTED for name in calls)


def _behind(
    scope: Scope, node: ast.AST, seen: set[str], assigned: Mapping[str, list[ast.expr]]
) -> Iterator[ast.Call | ast.Name]:
    """Yield the calls and names that the numbers of an expression are computed by, through local names.

    A size, a device or another plain number tells nothing of what the tensor holds that it is asked of, and neither
    does a tensor that is made like it.
    """
    kind = scope.kind(node) if isinstance(node, ast.expr) else None
    if isinstance(kind, k.Value) and kind.source != "data":
        return
    if isinstance(node, ast.Call):
        yield node
        if _MADE_LIKE.search(_called(scope, node)):
            return
    elif isinstance(node, ast.Name) and node.id not in seen:
        yield node
        seen.add(node.id)
        for value in assigned.get(node.id, ()):
            yield from _behind(scope, value, seen, assigned)
    for child in ast.iter_child_nodes(node):
        yield from _behind(scope, child, seen, assigned)


def _called(scope: Scope, node: ast.Call) -> str:
    """The dotted name of what is called, or its last part."""
    return callee(scope, node) or (node.func.attr if isinstance(node.func, ast.Attribute) else "")


def _assigned(function: FunctionNode) -> Mapping[str, list[ast.expr]]:
    """Return what the local names of a function are set to."""
    found: dict[str, list[ast.expr]] = {}
    for node in (one for one in walk(function) if isinstance(one, ast.Assign)):
        for target in (one for one in node.targets if isinstance(one, ast.Name)):
            found.setdefault(target.id, []).append(node.value)
    return found
