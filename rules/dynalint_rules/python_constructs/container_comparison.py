"""DYN709: lists or tuples with tensors in them, compared with each other."""

from __future__ import annotations

import ast

from dynalint.rulekit import Operation, Project, Rule


class ContainerComparison(Rule):
    code = "DYN709"
    name = "container-comparison"
    summary = "comparing lists or tuples that hold tensors ends the graph"
    gb = ("GB6622", "GB0170")
    events = (Operation,)
    message = "the comparison asks a tensor in these lists for its truth, which only the data tells"
    help = "compare the plain numbers in Python, and the tensors by torch"
    refusal = "compare the plain numbers in Python; what to do about the tensors depends on what it is for"

    def flags(self, event: Operation, project: Project) -> bool:
        """Whether it is a comparison, unless both sides hold the very same tensor."""
        return issubclass(event.operator, ast.cmpop) and not _same(event.node)


def _same(node: ast.AST) -> bool:
    """Whether a list or tuple is compared with one that reads the same."""
    return (
        isinstance(node, ast.Compare)
        and len(node.comparators) == 1
        and ast.dump(node.left) == ast.dump(node.comparators[0])
    )
