"""DYN504: a `deque` with `maxlen` that outlives the call."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from dynalint.rulekit import ContainerChange, Declined, Project, Rewrite, Rule, Violation, walk_function
from dynalint_rules._code.changes import names, reached_functions, related, state_name
from dynalint_rules._code.deques import deque_limits

_ADDING = frozenset({"append", "appendleft", "extend", "extendleft", "insert", "iadd"})
_AT_THE_LEFT = frozenset({"appendleft", "extendleft", "insert"})


class BoundedDeque(Rule):
    code = "DYN504"
    name = "bounded-deque"
    summary = "A `deque` with `maxlen` has one item too many in compiled code"
    category = "miscompile"
    events = (ContainerChange,)

    def check(self, event: ContainerChange, project: Project) -> Iterable[Violation]:
        """Flag adding to a deque with `maxlen` that is read afterwards."""
        if event.method not in _ADDING or not deque_limits(event, project):
            return
        left = event.method in _AT_THE_LEFT
        if left or _is_read_afterwards(event, project):
            what = "drops the wrong item" if left else "still contains the item that it should have dropped"
            yield Violation(
                event.statement,
                f"compiled code ignores the `maxlen` of `{event.home.name}`, which {what} once it is full",
                help="Use a list and slice it to the required length, as in `items = [*items, item][-n:]`.",
            )

    def fix(self, event: ContainerChange, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Offer no fix, because the replacement depends on how else the deque is used."""
        return Declined(
            f"the right replacement depends on how else `{event.home.name}` is used; consider a list that you "
            "slice to the required length, as in `items = [*items, item][-n:]`"
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
    """Return whether a read in the same function runs before the item is added."""
    return node.lineno <= (event.statement.end_lineno or event.statement.lineno) and not event.position.loop


def _reads(node: ast.expr, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether a use of the deque reads anything other than the newest item."""
    parent = parents.get(node)
    if isinstance(parent, ast.Attribute):
        return parent.attr not in _ADDING
    if isinstance(parent, ast.Subscript):
        return ast.unparse(parent.slice) != "-1"
    return not isinstance(parent, ast.Global | ast.Nonlocal)
