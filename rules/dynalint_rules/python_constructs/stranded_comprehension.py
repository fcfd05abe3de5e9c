"""DYN720: a comprehension that Dynamo cannot compile separately."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import (
    COMPREHENSIONS,
    Comprehension,
    Iteration,
    Project,
    Rule,
    Violation,
    k,
)

# Dynamo does not support iterators over these as arguments. It supports iterators over tuples, ranges and tensors.
_ITERATED = ("list", "set", "generator", "view", "torch.nn.ModuleList", "torch.nn.Sequential")


class StrandedComprehension(Rule):
    code = "DYN720"
    name = "stranded-comprehension"
    summary = "A list comprehension runs in eager mode after a graph break in a loop"
    severity = "info"
    gb = ("GB0156", "GB4347", "GB9493")  # torch 2.11 reports the first
    events = (Iteration,)
    refusal = "fix the graph break in the loop, or iterate over a tuple"

    def check(self, event: Iteration, project: Project) -> Iterable[Violation]:
        """Flag a comprehension over an iterator that Dynamo does not support, if Dynamo skips its function."""
        node = _comprehension(event, project) if _is_opaque(event) else None
        if node is not None:
            yield Violation(
                node,
                "Dynamo skips the function because of a graph break in a loop, and it cannot compile this "
                "comprehension separately",
                help="fix the graph break in the loop; that also removes this finding",
                stranded=True,
            )


def _comprehension(event: Iteration, project: Project) -> Comprehension | None:
    """Return the outermost comprehension whose first loop iterates over an event's node, or None."""
    if isinstance(event.statement, ast.For | ast.AsyncFor) and event.statement.iter is event.node:
        return None
    parents = project.parents(event.function)
    comprehension = parents.get(event.node)
    node = parents.get(comprehension) if isinstance(comprehension, ast.comprehension) else None
    if not isinstance(node, COMPREHENSIONS) or node.generators[0].iter is not event.node:
        return None
    around = parents.get(node)
    while around is not None and not isinstance(around, ast.stmt):
        if isinstance(around, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Lambda):
            return None
        around = parents.get(around)
    return node


def _is_opaque(event: Iteration) -> bool:
    """Return whether a comprehension is passed an iterator that Dynamo does not support, such as a list's."""
    kind = event.kind
    if isinstance(event.node, ast.List):
        return any(isinstance(one, ast.Starred) for one in event.node.elts)  # otherwise, Python turns it into a tuple
    is_annotated = isinstance(kind, k.Sequence) and kind.home is not None and kind.home.type == "argument"
    return isinstance(kind, k.Sequence) and kind.type in _ITERATED and not is_annotated
