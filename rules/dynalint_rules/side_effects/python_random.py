"""DYN407: Python's `random`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import suppress

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.drawn import drawn_by_torch
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.joined_repeats import chosen_by_place
from dynalint_rules._shared.numbers import flow_of
from dynalint_rules._shared.order import always_before
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.size_arguments import sizes
from dynalint_rules._shared.text import atom

_UNTRACED = (
    "random gauss choice choices sample shuffle seed getrandbits getstate setstate normalvariate betavariate "
    "expovariate triangular lognormvariate vonmisesvariate gammavariate paretovariate weibullvariate "
    "randbytes binomialvariate"
).split()
_TRACED = ("uniform", "randint", "randrange")
# What Dynamo traces of a `random.Random` besides; what it does not know of one are the other ways to draw.
_OF_OBJECTS = frozenset({"random", "seed", "getstate", "setstate"})
_OBJECT = "random.Random."
_CONVERSIONS = ("builtins.int", "builtins.float", "builtins.round")


class PythonRandom(Rule):
    """Draw random numbers with Python's `random` while a model runs.

    ## What it flags
    `random.random`, `random.gauss`, `random.choice`, `random.sample`, `random.shuffle`, `random.seed` and the others
    in code that is compiled, and the same methods of a `random.Random`, save that its `random()` is traced like
    `uniform` and its `seed`, `getstate` and `setstate` are traced. Of `random.uniform`, `random.randint` and
    `random.randrange`, which Dynamo traces, it flags the uses that it does not: a test (`if random.uniform(0, 1) <
    p`), arithmetic with other numbers, an index, a bound of a slice, a size (`x.repeat(1, n)`, `torch.zeros(n)`,
    `range(n)`), a conversion (`int(...)`). Not flagged: drawing in code that is not compiled, and a number drawn by
    those three that only meets tensors.

    ## Why
    The number must be another one in each call. Dynamo has handlers for three of the functions, which make the number
    an input of the graph; for all others it ends the graph, draws, and begins a second one. A graph input cannot
    decide a branch in Python either, so a layer that is skipped at random breaks whichever function draws.

    ## Example
    ```python
    def forward(self, x):
        return x * random.random()
    ```

    Use instead:
    ```python
    def forward(self, x):
        return x * random.uniform(0.0, 1.0)
    ```

    ## How it is rewritten
    `random.random()` becomes `random.uniform(0.0, 1.0)`, which draws the same number from the same stream, where every
    use of it meets a tensor. Where the number is tested, combined with other numbers or used as an index, torch draws
    it, as a tensor without dimensions: `torch.rand(())`, `torch.empty(()).uniform_(a, b)`, `torch.randint(a, b, ())`,
    `torch.normal(mean, std, ())`. A branch that it decides is rewritten along with it (see DYN101).
    `torch.cat([a.unsqueeze(1).repeat(1, i, 1), b.unsqueeze(1).repeat(1, n - i, 1)], 1)`, with names for the parts, is a
    choice by place, `torch.where(torch.arange(n)[:, None] < i, a.unsqueeze(1), b.unsqueeze(1))`.
    `random.sample(range(n), k)` that indexes tensors becomes `torch.randperm(n)[:k]`. Declined where the number is a
    size otherwise, and for the other functions: draw outside of the compiled code and pass the result as an
    argument.

    ## When the rewrite is not exact
    Eager code gives the same numbers with `random.uniform`. Compiled code takes a number of it for a tensor of dtype
    float64, so with tensors of whole numbers, and with tensors without dimensions, the dtype of the result may differ:
    the fix is `safe` where all tensors are known to be floating and to have dimensions, else `conditional`. A choice by
    place is `conditional` on the number being within bounds; gradients are summed in another order. What torch draws
    are other numbers, from a generator of its own which `torch.manual_seed` seeds, so that is `unsafe`.

    ## How Dynamo words it
    GB0007: `Attempted to call function marked as skipped`. Uses of a traced number give GB0170: `Data-dependent
    branching`, GB0213: `unimplemented builtin op on tensor arguments`, GB0033, GB0124 or GB0178.

    ## References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    - https://docs.python.org/3/library/random.html
    """

    code = "DYN407"
    name = "python-random"
    summary = "random numbers of Python's `random` end the graph, or decide a branch"
    gb = ("GB0007", "GB0156", "GB0170", "GB0213", "GB0033", "GB0124", "GB0178", "GB4841")
    events = (Call,)
    calls = frozenset(
        [f"random.{name}" for name in (*_UNTRACED, *_TRACED)]
        + [f"{_OBJECT}{name}" for name in (*_UNTRACED, *_TRACED) if name not in _OF_OBJECTS or name == "random"]
    )

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call, or for the traced functions the use of the number that is not traced."""
        if not isinstance(event, Call) or leads_to_raise(event, project):
            return
        name = event.callee.rpartition(".")[2]
        if name not in _TRACED and not (name == "random" and event.callee.startswith(_OBJECT)):
            yield Violation(
                event.node,
                f"`{event.callee}()` ends the graph",
                help="draw with `torch.rand` in the graph, or draw outside and pass the number as an argument",
            )
            return
        for node in _untraced_uses(event, project):
            yield Violation(
                node,
                f"a number drawn by `{event.callee}()` decides something in Python here, which ends the graph",
                help="draw outside of the compiled code, or select with `torch.where`",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Draw with `random.uniform`, where that is traced, else with torch."""
        if not isinstance(event, Call):
            return None
        if event.callee.startswith(_OBJECT):
            return Declined("the numbers come from a generator of its own; draw outside and pass them as an argument")
        try:
            scope = Scope.of(event, project)
            with suppress(Refusal):
                return _uniform(scope, event)
            use = next((one for one in walk(scope.function.node) if one is violation.node), None)
            by_place = chosen_by_place(scope, use) if isinstance(use, ast.expr) else None
            if by_place is not None:
                return by_place
            return drawn_by_torch(scope, event)
        except Refusal as refusal:
            return Declined(str(refusal))

    examples = (
        Example(
            name="scale",
            code=forward("return self.fc(x) * random.random()  # DYN407", head="import random"),
            fixed=forward("return self.fc(x) * random.uniform(0.0, 1.0)", head="import random"),
        ),
        Example(
            name="repeated-a-number-of-times",
            code=forward(
                """
                h = self.fc(x)
                i = random.randint(1, self.n - 1)
                head = h.unsqueeze(1).repeat(1, i, 1)  # DYN407
                tail = x.unsqueeze(1).repeat(1, self.n - i, 1)
                return torch.cat([head, tail], dim=1)
                """,
                head="import random",
                init="self.fc, self.n = nn.Linear(8, 8), 4",
            ),
            fixed=forward(
                """
                h = self.fc(x)
                i = random.randint(1, self.n - 1)
                return torch.where(torch.arange(self.n, device=h.device)[:, None] < i, h.unsqueeze(1), x.unsqueeze(1))
                """,
                head="import random",
                init="self.fc, self.n = nn.Linear(8, 8), 4",
            ),
        ),
        Example(
            name="generator-object",
            code=forward(
                """
                h = self.fc(x) * self.draws.random()
                if self.draws.random() < 0.5:  # DYN407
                    h = h + 1
                return h * self.draws.choice([1.0, 2.0])  # DYN407
                """,
                head="import random",
                init="self.fc, self.draws = nn.Linear(8, 8), random.Random(0)",
            ),
            declined="a generator of its own",
        ),
        Example(
            name="generator-object-in-the-graph",
            code=forward(
                "return self.fc(x) * self.draws.random() + self.draws.randint(0, 3)",
                head="import random",
                init="self.fc, self.draws = nn.Linear(8, 8), random.Random(0)",
            ),
        ),
        Example(
            name="imported-by-name",
            code=forward(
                """
                threshold = 50 + random()  # DYN407
                h = self.fc(x)
                return torch.where(h > threshold, h, -h)
                """,
                head="from random import random",
            ),
            fixed=forward(
                """
                threshold = 50 + torch.rand(())
                h = self.fc(x)
                return torch.where(h > threshold, h, -h)
                """,
                head="from random import random",
            ),
        ),
        Example(
            name="combined-with-numbers",
            code=forward(
                """
                h = self.fc(x)
                return torch.where(h > 50.0 + random.random(), h, -h)  # DYN407
                """,
                head="import random",
            ),
            fixed=forward(
                """
                h = self.fc(x)
                return torch.where(h > 50.0 + torch.rand(()), h, -h)
                """,
                head="import random",
            ),
        ),
        Example(
            name="skipped-layer",
            code=forward(
                """
                if random.random() < self.rate:  # DYN407
                    x = self.fc(x)
                return x + 1
                """,
                head="import random",
                init="self.fc, self.rate = nn.Linear(8, 8), 1.0",
            ),
            fixed=forward(
                """
                x = torch.where(torch.rand(()) < self.rate, self.fc(x), x)
                return x + 1
                """,
                head="import random",
                init="self.fc, self.rate = nn.Linear(8, 8), 1.0",
            ),
        ),
        Example(
            name="skipped-layer-by-uniform",
            code=forward(
                """
                if random.uniform(0, 1) < 1.5:  # DYN407
                    x = self.fc(x)
                return x + 1
                """,
                head="import random",
            ),
            fixed=forward(
                """
                x = torch.where(torch.rand(()) < 1.5, self.fc(x), x)
                return x + 1
                """,
                head="import random",
            ),
        ),
        Example(
            name="tested-later",
            code=forward(
                """
                probability = random.uniform(2, 3)
                h = self.fc(x)
                if self.training and probability < 0.5:  # DYN407
                    h = h * 2
                return h + 1
                """,
                head="import random",
            ),
            fixed=forward(
                """
                probability = torch.empty(()).uniform_(2, 3)
                h = self.fc(x)
                if self.training:
                    h = torch.where(probability < 0.5, h * 2, h)
                return h + 1
                """,
                head="import random",
            ),
        ),
        Example(
            name="rows",
            code=forward(
                """
                h = self.fc(x)
                rows = random.sample(range(4), 4)  # DYN407
                return h[rows].sum()
                """,
                head="import random",
            ),
            fixed=forward(
                """
                h = self.fc(x)
                rows = torch.randperm(4)[:4]
                return h[rows].sum()
                """,
                head="import random",
            ),
            exact=False,
        ),
        Example(
            name="size",
            code=forward(
                """
                n = random.randint(1, 3)
                h = self.fc(x).repeat(n, 1)  # DYN407
                return h[: 5 - n]
                """,
                head="import random",
            ),
            declined="draw it outside",
        ),
        Example(
            name="size-unless-given",
            code=forward(
                """
                if n is None:
                    n = random.randint(1, 3)
                h = self.fc(x).repeat(1, n)  # DYN407
                return h * 2
                """,
                head="import random",
                arguments="x: torch.Tensor, n: int | None = None",
            ),
        ),
        Example(
            name="size-in-a-tuple",
            code=forward(
                """
                return self.fc(x).new_ones((random.randrange(1, 4), 4))  # DYN407
                """,
                head="import random",
            ),
        ),
        Example(
            name="converted",
            code=forward(
                """
                n = int(random.uniform(1, 3))  # DYN407
                return self.fc(x)[:n]
                """,
                head="import random",
            ),
        ),
        Example(
            name="choice",
            code=forward(
                """
                factor = random.choice([1.0, 2.0])  # DYN407
                return self.fc(x) * factor
                """,
                head="import random",
            ),
            declined="draw it outside",
        ),
        Example(
            name="padding",
            code=forward(
                """
                count = random.randint(1, 3)
                padding = torch.zeros(count, 8)  # DYN407
                return torch.cat([self.fc(x), padding, x.narrow(0, 0, random.randrange(1, 4))])  # DYN407
                """,
                head="import random",
            ),
        ),
        Example(
            name="size-of-a-filled-tensor",
            code=forward(
                "return self.fc(x).sum() + torch.full((random.randint(1, 3), 8), 1.0)  # DYN407", head="import random"
            ),
            declined="draw it outside",
        ),
        Example(
            name="value-of-a-tensor",
            code=forward("return self.fc(x) + torch.full((4, 8), random.uniform(1, 3))", head="import random"),
        ),
        Example(
            name="traced-numbers",
            code=forward(
                """
                shift = random.randint(0, 3)
                return self.fc(x) * random.uniform(0.5, 1.5) + shift
                """,
                head="import random",
            ),
        ),
        Example(
            name="drawn-outside",
            code=forward("return self.fc(x) * scale", head="import random", arguments="x: torch.Tensor, scale: float")
            + "\n\ndef step(model, x):\n    return model(x, random.random())\n",
            inputs="[(torch.randn(4, 8), 0.5), (torch.randn(4, 8), 0.25)]",
        ),
    )


def _uniform(scope: Scope, event: Call) -> Rewrite:
    """Replace `random.random()` by `random.uniform(0.0, 1.0)`.

    Raises:
        Refusal: it draws otherwise, or Dynamo has to know the number, as a test or an index, or in arithmetic.
    """
    flow = flow_of(scope, event.node, "float")
    name = event.node.func
    if event.callee != "random.random" or flow.leaves or flow.edits or not isinstance(name, ast.Attribute):
        raise Refusal("no traced function draws the same numbers")
    if any("precision" in clause for clause in flow.clauses):
        raise Refusal("Dynamo does not trace arithmetic of a number that is drawn with others")
    start, end = scope.file.span(event.node)
    content = f"{atom(name.value, scope.text(name.value))}.uniform(0.0, 1.0)"
    title = "Draw with `random.uniform`, which is traced and gives the same number"
    conditions = tuple(flow.conditions)
    replacement = Replacement(scope.file, start, end, content)
    return Rewrite(title, "conditional" if conditions else "safe", (replacement,), conditions)


def _untraced_uses(event: Call, project: Project) -> Iterator[ast.expr]:
    """Yield the places where a number that Dynamo traces is used as it cannot trace it.

    Of several that follow each other the first: after it the number is one of Python's, which the next graph is given.
    """
    try:
        scope = Scope.of(event, project)
    except Refusal:
        return
    uses = [node for node in (event.node, *_reads(scope, event.node)) if _is_untraced(scope, node)]
    for use in uses:
        if not any(always_before(other, use, scope.parents) for other in uses if other is not use):
            yield use


def _reads(scope: Scope, node: ast.expr) -> Iterator[ast.expr]:
    """Yield the reads of the variable that a drawn number is assigned to, as far as it still holds that number."""
    statement = scope.parents.get(node)
    if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
        return
    target = statement.targets[0]
    if not isinstance(target, ast.Name):
        return
    where: list[ast.AST] = [scope.function.node]
    arguments = {one.arg for one in walk(scope.function.node.args) if isinstance(one, ast.arg)}
    if target.id in arguments or len(list(_named(where[0], target.id, ast.Store))) > 1:
        where = list(_behind(statement, target.id, scope))
    for place in where:
        yield from _named(place, target.id, ast.Load)


def _named(place: ast.AST, name: str, context: type[ast.expr_context]) -> Iterator[ast.Name]:
    for one in walk(place):
        if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, context):
            yield one


def _behind(statement: ast.stmt, name: str, scope: Scope) -> Iterator[ast.stmt]:
    """Yield the statements behind an assignment in its block, or behind `if n is None:` around it, up to the next."""
    place = scope.parents.get(statement)
    if not (
        isinstance(place, ast.If) and isinstance(place.test, ast.Compare) and isinstance(place.test.ops[0], ast.Is)
    ):
        place = statement
    parent = scope.parents.get(place)
    blocks = (getattr(parent, field, None) for field in ("body", "orelse", "finalbody"))
    block = next((one for one in blocks if isinstance(one, list) and place in one), [])
    for one in block[block.index(place) + 1 :] if block else ():
        if any(_named(one, name, ast.Store)):
            return
        yield one


def _is_untraced(scope: Scope, node: ast.expr) -> bool:
    """Whether a traced number is tested, computed with, or counts something right where `node` stands."""
    parent = scope.parents.get(node)
    if isinstance(parent, ast.If | ast.While | ast.IfExp | ast.Assert):
        return node is parent.test
    if isinstance(parent, ast.BoolOp | ast.UnaryOp):
        return True
    if isinstance(parent, ast.Compare):
        others = [one for one in (parent.left, *parent.comparators) if one is not node]
        return all(k.is_number(scope.kind(one)) for one in others) and _is_untraced(scope, parent)
    if isinstance(parent, ast.BinOp):
        other = parent.right if node is parent.left else parent.left
        return k.is_number(scope.kind(other))
    if isinstance(parent, ast.Slice):
        return True
    if isinstance(parent, ast.Subscript):
        return node is parent.slice
    if isinstance(parent, ast.Tuple | ast.List):
        call = scope.parents.get(parent)
        return isinstance(call, ast.Call) and parent in sizes(callee(scope, call), call)
    if isinstance(parent, ast.keyword):
        call = scope.parents.get(parent)
        return isinstance(call, ast.Call) and node in sizes(callee(scope, call), call)
    if isinstance(parent, ast.Call):
        name = callee(scope, parent)
        return node in parent.args and (name in _CONVERSIONS or node in sizes(name, parent))
    return False
