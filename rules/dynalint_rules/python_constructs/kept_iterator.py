"""DYN710: an iterator that one call leaves for the next."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event, Iteration
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward


class KeptIterator(Rule):
    """Go on with an iterator that was made before the call.

    ## What it flags

    `next(...)` of a generator, `itertools.cycle`, `itertools.count`, `map`, `zip` or `iter(...)` that an attribute, a
    class or a module global holds, and a loop over such a generator or iterator, in code that is compiled. Not flagged:
    iterators that the same call makes, which are traced, however far they are run, and lists, ranges and the views of
    dicts, which begin anew with each loop.

    ## Why

    How far an iterator has come is kept inside of it, where Dynamo cannot look: it ends the graph. It does know
    `itertools.count` and the iterators of ranges, and compiles the function for the very number that comes next, so
    those compile again on each call, up to the limit.

    ## Example

    ```python
    def __init__(self):
        super().__init__()
        self.offsets = itertools.cycle([0, 1])


    def forward(self, x):
        return self.fc(x) + next(self.offsets)
    ```

    Use instead:

    ```python
    def forward(self, x, offset):
        return self.fc(x) + offset


    for offset in itertools.cycle([0, 1]):
        model(x, offset)
    ```

    ## How it is rewritten

    It is not: take the next value before the call, and pass it in.

    ## When the rewrite is not exact

    There is none.

    ## How Dynamo words it

    GB4347: `Missing tp_iternext` for `next`, GB0811: `missing tp_iter` for loops. The recompiles name the guards
    `___normalize_count_iter` and `___normalize_range_iter`.

    ## References

    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb4347.html
    """

    code = "DYN710"
    name = "kept-iterator"
    summary = "going on with an iterator that outlives the call ends the graph"
    gb = ("GB4347", "GB0811", "GB0156", "GB0253")
    events = (Call, Iteration)
    calls = frozenset({"builtins.next"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag `next` of what was there before the call, and a loop over it."""
        if isinstance(event, Call):
            kind = event.args[0] if event.args else k.UNKNOWN
        elif isinstance(event, Iteration):
            kind = event.kind
        else:
            return
        home = kind.home if isinstance(kind, k.Sequence) else None
        if not isinstance(kind, k.Sequence) or home is None or home.type not in ("attribute", "class", "global"):
            return
        if kind.type == "generator":
            yield Violation(event.node, f"Dynamo cannot go on with the iterator `{home.name}`, made earlier")
        elif kind.type in ("count", "range_iterator") and isinstance(event, Call):
            yield Violation(
                event.node,
                f"each call is compiled anew for the number that `{home.name}` has come to",
                category="recompile",
                torch=">=2.13" if kind.type == "count" else "",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: the callers have to pass the value."""
        return Declined("take the next value before the call and pass it in, which changes the callers")

    examples = (
        Example(
            name="cycle",
            code=forward(
                """
                h = self.fc(x)
                return h + next(self.offsets)  # DYN710
                """,
                head="import itertools",
                init="""
                self.fc = nn.Linear(8, 8)
                self.offsets = itertools.cycle([0, 1])
                """,
            ),
            declined="pass it in",
        ),
        Example(
            name="generator",
            code=forward(
                """
                h = self.fc(x)
                return h + next(ONES)  # DYN710
                """,
                head="""
                def ones():
                    while True:
                        yield 1


                ONES = ones()
                """,
            ),
        ),
        Example(
            name="iterator-of-a-list",
            code=forward(
                """
                h = self.fc(x)
                return h + next(self.offsets)  # DYN710
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.offsets = iter([1] * 100)
                """,
            ),
        ),
        Example(
            name="loop",
            code=forward(
                """
                h = self.fc(x)
                for offset in self.offsets:  # DYN710
                    return h + offset
                """,
                head="import itertools",
                init="""
                self.fc = nn.Linear(8, 8)
                self.offsets = itertools.cycle([0, 1])
                """,
            ),
        ),
        Example(
            name="layers-given-out-once",
            code=forward(
                """
                for name, layer in self.layers:  # DYN710
                    x = layer(x)
                return x + 1
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.layers = self.named_children()
                """,
            ),
        ),
        Example(
            name="begins-anew",
            code=forward(
                """
                h = self.fc(x)
                for name in NAMES:
                    h = h + len(name)
                for offset in [*self.offsets, *range(2)]:
                    h = h + offset
                return h
                """,
                head="""
                NAMES = {"a": 1}.keys()
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.offsets = (0, 1)
                """,
            ),
        ),
        Example(
            name="count",
            torch=">=2.13",
            code=forward(
                """
                h = self.fc(x)
                return h + next(self.steps)  # DYN710
                """,
                head="import itertools",
                init="""
                self.fc = nn.Linear(8, 8)
                self.steps = itertools.count()
                """,
            ),
        ),
        Example(
            name="range",
            code=forward(
                """
                h = self.fc(x)
                return h + next(self.steps)  # DYN710
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.steps = iter(range(100))
                """,
            ),
        ),
        Example(
            name="made-by-the-same-call",
            code=forward(
                """
                offsets = itertools.cycle(self.offsets)
                steps = itertools.count(3)
                parts = iter([self.fc(x), x])
                return next(parts) + next(offsets) + next(steps)
                """,
                head="import itertools",
                init="""
                self.fc = nn.Linear(8, 8)
                self.offsets = [0, 1]
                """,
            ),
        ),
        Example(
            name="of-a-layer",
            code=forward(
                "return self.fc(x) + next(self.parameters()).sum() + next(iter(self.offsets.values()))",
                init="""
                self.fc = nn.Linear(8, 8)
                self.offsets = {"a": 1}
                """,
            ),
        ),
    )
