"""DYN703: heaps and binary search of the standard library."""

from __future__ import annotations

import ast

from dynalint.rulekit import Call, Declined, Project, Rewrite, Rule, Violation, rw
from dynalint_rules._code.calls import callee
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.names import loads, only_value
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.number.known_numbers import is_whole

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

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Count the smaller values a bound, and keep a list of the function's own in order."""
        scope = Scope.of(event, project)
        rewrite = _counted(scope, event.node) or _in_order(scope, event.node)
        declined = "the code around the call uses the list too; write it with `sorted` or `list.sort`"
        return rewrite or Declined(declined)


def _counted(scope: Scope, node: ast.Call) -> Rewrite | None:
    """Count the numbers of a list in order that lie below another one, in the place of a binary search for it."""
    name = callee(scope, node).removeprefix("bisect.")
    if name not in ("bisect", "bisect_left", "bisect_right") or len(node.args) != 2 or node.keywords:
        return None
    numbers, sought = node.args
    elements = numbers.elts if isinstance(numbers, ast.List | ast.Tuple) else []
    values = [one.value for one in elements if isinstance(one, ast.Constant) and type(one.value) is int]
    if not elements or len(values) < len(elements) or values != sorted(values):
        return None
    if not is_whole(scope.kind(sought)) or not is_pure(scope, sought):
        return None
    if "sum" in scope.function.locals or "sum" in scope.function.module.bindings:
        return None
    bound, sign = scope.fresh_name("bound"), "<" if name == "bisect_left" else "<="
    text = scope.text(sought)
    given = text if isinstance(sought, ast.Name | ast.Constant | ast.Attribute | ast.Subscript) else f"({text})"
    content = f"sum({bound} {sign} {given} for {bound} in {scope.text(numbers)})"
    return Rewrite("Count the smaller values", "safe", rw.written(scope.file, (node, content)))


def _in_order(scope: Scope, node: ast.Call) -> Rewrite | None:
    """Keep a heap of whole numbers in order: `heap.sort()` makes it one, and `heap.pop(0)` takes the smallest."""
    heap = node.args[0] if node.args else None
    if not isinstance(heap, ast.Name):
        return None
    made, first = only_value(scope, heap.id, scope.function.node.args), False
    if not isinstance(made, ast.List) or not made.elts or not all(is_whole(scope.kind(one)) for one in made.elts):
        return None
    changes: list[rw.Change] = []
    for load in sorted(loads(scope, heap.id), key=scope.file.span):
        call = scope.parents.get(load)
        name = callee(scope, call) if isinstance(call, ast.Call) and call.args == [load] else ""
        statement = None if call is None else scope.parents.get(call)
        if name == "heapq.heapify" and isinstance(statement, ast.Expr):
            first = first or statement in scope.function.statements
            content = f"{heap.id}.sort()"
        elif name == "heapq.heappop" and first:
            content = f"{heap.id}.pop(0)"
        else:
            return None
        assert isinstance(call, ast.Call)
        changes.append((call, content))
    condition = f"`{heap.id}` is never popped when empty"
    return Rewrite(f"Keep `{heap.id}` sorted", "conditional", rw.written(scope.file, *changes), (condition,))
