"""DYN709: comparing lists or tuples that contain tensors."""

from __future__ import annotations

import ast

from dynalint.rulekit import Operation, Project, Rule


class ContainerComparison(Rule):
    code = "DYN709"
    name = "container-comparison"
    summary = "Comparing lists or tuples that hold tensors breaks the graph"
    gb = ("GB6622", "GB0170")
    reads_data = True
    events = (Operation,)
    message = "the comparison evaluates the truth of a tensor in these lists, which depends on data"
    help = "compare the plain numbers in Python, and the tensors with torch"
    refusal = "compare the plain numbers in Python; the right comparison of the tensors depends on its purpose"

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
