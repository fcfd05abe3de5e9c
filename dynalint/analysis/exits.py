"""Code that only runs on the way to an exception, which a compiled call does not trace unless it raises as well."""

from __future__ import annotations

import ast

from dynalint.analysis.events import Event
from dynalint.analysis.project import Project


def leads_to_raise(event: Event, project: Project) -> bool:
    """Whether an event stands in a `raise`, in the message of an `assert`, or in a branch that ends in a `raise`."""
    parents = project.parents(event.function)
    node: ast.AST = event.node
    while node is not event.function.node and node in parents:
        parent = parents[node]
        if isinstance(node, ast.Raise) or (isinstance(parent, ast.Assert) and node is parent.msg):
            return True
        if isinstance(node, ast.stmt) and parent is not event.function.node:
            block = next((block for block in _blocks(parent) if node in block), None)
            if block is not None and isinstance(block[-1], ast.Raise):
                return True
        node = parent
    return False


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    fields = (getattr(node, name, None) for name in ("body", "orelse", "finalbody"))
    return [block for block in fields if isinstance(block, list)]
