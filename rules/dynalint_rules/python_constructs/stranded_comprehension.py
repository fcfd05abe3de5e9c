"""DYN720: a comprehension that Dynamo compiles by itself, and cannot."""

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

# Whose iterators Dynamo does not go through where it finds one as an argument. It does through those of tuples,
# ranges and tensors.
_ITERATED = ("list", "set", "generator", "view", "torch.nn.ModuleList", "torch.nn.Sequential")


class StrandedComprehension(Rule):
    code = "DYN720"
    name = "stranded-comprehension"
    summary = "A list comprehension runs in eager after a graph break in a loop"
    severity = "info"
    gb = ("GB4347", "GB9493")
    events = (Iteration,)
    refusal = "fix the break in the loop; otherwise iterate over a tuple"

    def check(self, event: Iteration, project: Project) -> Iterable[Violation]:
        """Flag a comprehension over what Dynamo does not take as an argument, if its function is given up."""
        node = _comprehension(event, project) if _is_opaque(event) else None
        if node is not None:
            yield Violation(
                node,
                "Dynamo skips the function because of a break in a loop, and cannot compile this comprehension "
                "on its own",
                help="fix the break in the loop, which fixes this too",
                stranded=True,
            )


def _comprehension(event: Iteration, project: Project) -> Comprehension | None:
    """The outermost comprehension whose first loop goes over the node of an event; none where it is no function."""
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
    """Return whether Dynamo cannot go through what a comprehension is handed: the iterator of a list."""
    kind = event.kind
    if isinstance(event.node, ast.List):
        return any(isinstance(one, ast.Starred) for one in event.node.elts)  # else Python makes a tuple of it
    is_annotated = isinstance(kind, k.Sequence) and kind.home is not None and kind.home.type == "argument"
    return isinstance(kind, k.Sequence) and kind.type in _ITERATED and not is_annotated
