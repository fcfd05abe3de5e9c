"""DYN709: lists or tuples with tensors in them, compared with each other."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Declined, Event, Operation, Project, Rewrite, Rule, Violation


class ContainerComparison(Rule):
    code = "DYN709"
    name = "container-comparison"
    summary = "comparing lists or tuples that hold tensors ends the graph"
    gb = ("GB6622", "GB0170")
    events = (Operation,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the comparison, unless both sides hold the very same tensor."""
        if isinstance(event, Operation) and issubclass(event.operator, ast.cmpop) and not _same(event.node):
            yield Violation(
                event.node,
                "the comparison asks a tensor in these lists for its truth, which only the data tells",
                help="compare the plain numbers in Python, and the tensors by torch",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: what the comparison is for decides."""
        return Declined("compare the plain numbers in Python; what to do about the tensors depends on what it is for")


def _same(node: ast.AST) -> bool:
    """Whether a list or tuple is compared with one that reads the same."""
    return (
        isinstance(node, ast.Compare)
        and len(node.comparators) == 1
        and ast.dump(node.left) == ast.dump(node.comparators[0])
    )
