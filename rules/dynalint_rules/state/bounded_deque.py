"""DYN504: a `deque` with `maxlen` that outlives the call."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from dynalint.analysis.events import ContainerChange, Event
from dynalint.analysis.index import walk_function
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.deques import deque_limits
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.growth import names, reached_functions, related, state_name

_ADDING = frozenset({"append", "appendleft", "extend", "extendleft", "insert", "iadd"})
_AT_THE_LEFT = frozenset({"appendleft", "extendleft", "insert"})


class BoundedDeque(Rule):
    """Add to a `deque(maxlen=...)` that outlives the call, and read the wrong items in compiled code.

    ## What it flags

    `append`, `extend` and the like on a deque with a `maxlen` that an attribute or a module global holds, in code that
    a compiled function reaches: where the same code reads the deque afterwards, by an index other than -1, in a loop,
    by `len`, `sum`, `list`; and always where items are added at its left end.

    Not flagged: a deque without `maxlen` (DYN503), one that is made in the call, one that is only added to, one that
    is read only before the addition, and `history[-1]`.

    ## Why

    Dynamo traces the deque as a list and forgets `maxlen` until the call is over. Once the deque is full, the code
    that runs after an addition sees one item too many: `history[0]` is the item that should have been dropped. Nothing
    breaks and nothing is said; the result is wrong.

    ## Example

    ```python
    def __init__(self):
        super().__init__()
        self.history = deque(maxlen=2)

    def forward(self, x):
        self.history.append(x)
        return x + self.history[0]
    ```

    Use instead:

    ```python
    def __init__(self):
        super().__init__()
        self.history = []

    def forward(self, x):
        self.history = [*self.history, x][-2:]
        return x + self.history[0]
    ```

    ## How it is rewritten

    It is not: lists have other methods, and where else the deque is used decides which of them are right. A list that
    is cut to length, as above, gives the right result and settles after a few graphs.

    ## When the rewrite is not exact

    There is no rewrite.

    ## How Dynamo words it

    It does not. The graphs are whole, `fullgraph=True` passes, `torch._dynamo.explain` is content; only a comparison
    with uncompiled code shows the difference, from the first call on that finds the deque full.

    ## References

    - https://docs.python.org/3/library/collections.html#collections.deque
    """

    code = "DYN504"
    name = "bounded-deque"
    summary = "A `deque` with `maxlen` holds one item too many in compiled code"
    category = "miscompile"
    events = (ContainerChange,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag additions to deques of limited length that are read afterwards."""
        assert isinstance(event, ContainerChange)
        if event.method not in _ADDING or not deque_limits(event, project):
            return
        left = event.method in _AT_THE_LEFT
        if left or _is_read_afterwards(event, project):
            what = "drops the wrong item" if left else "still holds the item that `maxlen` drops"
            yield Violation(
                event.statement,
                f"compiled code forgets the `maxlen` of `{event.home.name}`: once it is full, it {what}",
                help="Keep a list and cut it to length: `items = [*items, item][-n:]`.",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Say why there is none."""
        assert isinstance(event, ContainerChange)
        return Declined(
            f"where else `{event.home.name}` is used decides how a list can stand in for it; "
            "keep a list and cut it to length by hand: `items = [*items, item][-n:]`"
        )

    examples = (
        Example(
            name="oldest-item",
            code=forward(
                """
                h = self.fc(x)
                self.history.append(h.detach())  # DYN504
                return h + self.history[0]
                """,
                head="from collections import deque",
                init="self.fc = nn.Linear(8, 8)\nself.history = deque(maxlen=2)",
            ),
            declined="where else `history` is used",
        ),
        Example(
            name="sum-of-all",
            code=forward(
                """
                self.gains.append(2.0)  # DYN504
                return self.fc(x) * sum(self.gains)
                """,
                head="import collections",
                init="self.fc = nn.Linear(8, 8)\nself.gains = collections.deque([1.0], maxlen=2)",
            ),
            declined="where else `gains` is used",
        ),
        Example(
            name="module-global",
            code="""
                from collections import deque

                import torch

                HISTORY = deque([], 2)


                @torch.compile
                def smooth(x):
                    HISTORY.append(x.detach())  # DYN504
                    total = x
                    for item in HISTORY:
                        total = total + item
                    return total
            """,
            target="smooth",
            declined="where else `HISTORY` is used",
        ),
        Example(
            name="added-at-the-left",
            code=forward(
                """
                self.sizes.appendleft(len(self.sizes))  # DYN504
                return self.fc(x)
                """,
                head="from collections import deque",
                init="self.fc = nn.Linear(8, 8)\nself.sizes = deque(maxlen=2)",
            ),
            declined="where else `sizes` is used",
        ),
        Example(
            name="only-the-newest",
            code=forward(
                """
                self.history.append(x.detach())
                return self.fc(x) + self.history[-1]
                """,
                head="from collections import deque",
                init="self.fc = nn.Linear(8, 8)\nself.history = deque(maxlen=2)",
            ),
        ),
        Example(
            name="read-before",
            code=forward(
                """
                y = self.fc(x)
                for item in self.history:
                    y = y + item
                self.history.append(x.detach())
                return y
                """,
                head="from collections import deque",
                init="self.fc = nn.Linear(8, 8)\nself.history = deque(maxlen=2)",
            ),
        ),
        Example(
            name="local-deque",
            code=forward(
                """
                window = deque(maxlen=2)
                for _ in range(4):
                    x = self.fc(x)
                    window.append(x)
                return window[0]
                """,
                head="from collections import deque",
            ),
        ),
        Example(
            name="list-cut-to-length",
            code=forward(
                """
                self.history = [*self.history, x.detach()][-2:]
                return self.fc(x) + self.history[0]
                """,
                init="self.fc = nn.Linear(8, 8)\nself.history = []",
            ),
        ),
    )


def _is_read_afterwards(event: ContainerChange, project: Project) -> bool:
    name = state_name(event)
    for function in reached_functions(project, name):
        if not related(function.owner, event.function.owner, project):
            continue
        parents = project.parents(function)
        for node in walk_function(function.node):
            if not isinstance(node, ast.Attribute | ast.Name) or not names(node, name):
                continue
            here = function is event.function
            if isinstance(node.ctx, ast.Load) and not (here and _runs_before(node, event)) and _reads(node, parents):
                return True
    return False


def _runs_before(node: ast.expr, event: ContainerChange) -> bool:
    """Whether a read in the function that adds is over when the item is added."""
    return node.lineno <= (event.statement.end_lineno or event.statement.lineno) and not event.position.loop


def _reads(node: ast.expr, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Whether a use of the deque looks at more than its newest item."""
    parent = parents.get(node)
    if isinstance(parent, ast.Attribute):
        return parent.attr not in _ADDING
    if isinstance(parent, ast.Subscript):
        return ast.unparse(parent.slice) != "-1"
    return not isinstance(parent, ast.Global | ast.Nonlocal)
