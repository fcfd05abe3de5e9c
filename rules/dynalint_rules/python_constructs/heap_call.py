"""DYN703: heaps and binary search from the standard library."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Call, Project, Rule, Violation, leads_to_raise

_CALLS = {
    "heapq": "heappush heappop heapify heappushpop heapreplace nlargest nsmallest merge",
    "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
}


class HeapCall(Rule):
    code = "DYN703"
    name = "heap-call"
    summary = "Calling a function from `heapq` or `bisect` breaks the graph"
    gb = ("GB0007", "GB0059")
    events = (Call,)
    calls = frozenset(f"{owner}.{name}" for owner, names in _CALLS.items() for name in names.split())
    refusal = "the code around the call uses the list too; rewrite it with `sorted` or `list.sort`"

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag every call. From torch 2.15 on, Dynamo traces `heapq`."""
        if not leads_to_raise(event, project):
            message = f"`{event.callee}()` is a C function that Dynamo cannot trace"
            yield Violation(event.node, message, torch="<2.15" if event.callee.startswith("heapq.") else "")
