"""DYN703: heaps and binary search of the standard library."""

from __future__ import annotations

from dynalint.rulekit import Call, Rule

_CALLS = {
    "heapq": "heappush heappop heapify heappushpop heapreplace nlargest nsmallest merge",
    "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
}


class HeapCall(Rule):
    code = "DYN703"
    name = "heap-call"
    summary = "A call of `heapq` or `bisect` breaks the graph"
    gb = ("GB0007", "GB0059")
    events = (Call,)
    calls = frozenset(f"{owner}.{name}" for owner, names in _CALLS.items() for name in names.split())
    message = "`{callee}()` is a C function that Dynamo cannot trace"
    refusal = "the code around the call uses the list too; write it with `sorted` or `list.sort`"
