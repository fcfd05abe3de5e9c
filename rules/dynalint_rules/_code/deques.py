"""The `maxlen` of a deque that outlives the call."""

from __future__ import annotations

import ast

from dynalint.rulekit import ContainerChange, Project, k, walk
from dynalint_rules._code.state_creation import makers


def deque_limits(event: ContainerChange, project: Project) -> list[ast.expr]:
    """Return the `maxlen` arguments, except None, with which the changed deque may have been created."""
    if not isinstance(event.container, k.Sequence) or event.container.type.rpartition(".")[2] != "deque":
        return []
    return [
        limit
        for made in makers(event, project)
        for node in walk(made)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "deque"
        for limit in [*node.args[1:2], *(keyword.value for keyword in node.keywords if keyword.arg == "maxlen")]
        if not (isinstance(limit, ast.Constant) and limit.value is None)
    ]
