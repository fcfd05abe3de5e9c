"""DYN703: heaps and binary search of the standard library."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.exits import leads_to_raise

_CALLS = {
    "heapq": "heappush heappop heapify heappushpop heapreplace nlargest nsmallest merge",
    "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
}


class HeapCall(Rule):
    """Keep a heap, or search a sorted list, by `heapq` or `bisect` while a model runs.

    ## What it flags

    The functions of `heapq` and `bisect` in code that is compiled. Not flagged: `sorted`, `list.sort`, `min` and `max`
    of plain values, which are traced, and `torch.searchsorted` and `torch.topk`, which do the same for tensors.

    ## Why

    These functions are written in C. Dynamo cannot look into them, and ends the graph at each call.

    ## Example

    ```python
    def forward(self, x):
        h = self.fc(x)
        level = bisect.bisect(self.levels, x.shape[0])
        return h * level
    ```

    Use instead:

    ```python
    def forward(self, x):
        h = self.fc(x)
        level = sum(bound <= x.shape[0] for bound in self.levels)
        return h * level
    ```

    ## How it is rewritten

    It is not: a heap is a state that several calls share, so the code around them has to change with it. Write it with
    `sorted` or `list.sort`, or work it out before the compiled function is called.

    ## When the rewrite is not exact

    There is none.

    ## How Dynamo words it

    GB0007: `Attempted to call function marked as skipped`. GB0059: `Failed to trace builtin operator` for
    `heapq.nsmallest` of one value.

    ## References

    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0007.html
    """

    code = "DYN703"
    name = "heap-call"
    summary = "a call of `heapq` or `bisect` ends the graph"
    gb = ("GB0007", "GB0059")
    events = (Call,)
    calls = frozenset(f"{owner}.{name}" for owner, names in _CALLS.items() for name in names.split())

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if isinstance(event, Call) and not leads_to_raise(event, project):
            yield Violation(event.node, f"`{event.callee}()` is a C function that Dynamo cannot trace")

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: the code around it has to change as well."""
        return Declined("the list is shared with the code around the call; write it with `sorted` or `list.sort`")

    examples = (
        Example(
            name="heap",
            code=forward(
                """
                heap = [3, 1, 2]
                heapq.heapify(heap)  # DYN703
                return self.fc(x) * heapq.heappop(heap)  # DYN703
                """,
                head="import heapq",
            ),
            declined="shared with the code around",
        ),
        Example(
            name="binary-search",
            code=forward(
                """
                h = self.fc(x)
                level = bisect.bisect([1, 2, 4, 8], x.shape[0])  # DYN703
                return h * level
                """,
                head="import bisect",
            ),
        ),
        Example(
            name="in-order",
            code=forward(
                """
                h = self.fc(x)
                names = ["a", "b"]
                insort(names, "aa")  # DYN703
                return h + len(names), names
                """,
                head="from bisect import insort",
            ),
        ),
        Example(
            name="sorted",
            code=forward(
                """
                largest = sorted([3, 1, 2], reverse=True)[:2]
                level = sum(bound <= x.shape[0] for bound in (1, 2, 4, 8))
                return self.fc(x) * level + sum(largest)
                """,
            ),
        ),
        Example(
            name="searchsorted",
            code=forward(
                """
                bounds = torch.tensor([-1.0, 0.0, 1.0])
                return self.fc(x) + torch.searchsorted(bounds, x)
                """,
            ),
        ),
    )
