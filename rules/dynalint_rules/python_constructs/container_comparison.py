"""DYN709: comparing lists or tuples that contain tensors."""

from __future__ import annotations

import ast

from dynalint.rulekit import Operation, Project, Rule


class ContainerComparison(Rule):
    code = "DYN709"
    name = "container-comparison"
    summary = "Comparing lists or tuples that contain tensors breaks the graph"
    gb = ("GB6622", "GB0170")
    reads_data = True
    events = (Operation,)
    message = "comparing these containers evaluates the truth value of a tensor, which breaks the graph"
    help = "compare the plain numbers in Python and the tensors with torch operations"
    refusal = "compare the plain numbers in Python; how to compare the tensors depends on what the code needs"

    def flags(self, event: Operation, project: Project) -> bool:
        """Return whether this is a comparison of two different expressions."""
        return issubclass(event.operator, ast.cmpop) and not _same(event.node)


def _same(node: ast.AST) -> bool:
    """Return whether both operands are the same expression."""
    return (
        isinstance(node, ast.Compare)
        and len(node.comparators) == 1
        and ast.dump(node.left) == ast.dump(node.comparators[0])
    )
