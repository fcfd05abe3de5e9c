"""DYN716: attributes that are set on functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Call, Event, Project, Rule, Violation, Write, k, walk


class FunctionAttribute(Rule):
    code = "DYN716"
    name = "function-attribute"
    summary = "Setting an attribute of a function breaks the graph"
    gb = ("GB0467", "GB0059")
    torch = "<2.14"
    events = (Write, Call)
    calls = frozenset({"function.*", "builtins.setattr"})
    refusal = "compute the value again, or keep it in a buffer of the module"

    def check(self, event: Write | Call, project: Project) -> Iterable[Violation]:
        """Flag the store."""
        if isinstance(event, Write) and isinstance(event.owner, k.Function):
            owner = event.owner
        elif isinstance(event, Call) and event.args and isinstance(event.args[0], k.Function):
            owner = event.args[0]
        else:
            return
        if owner.receiver is not None:
            return
        message = f"Dynamo cannot set an attribute of the function `{owner.function.name}`"
        if _happens_once(event, project):
            yield Violation(event.node, f"{message}; only the first call reaches this", category="advice")
        else:
            yield Violation(event.node, message)


def _happens_once(event: Event, project: Project) -> bool:
    """Whether the store stands behind a test for whether the attribute is there."""
    parents = project.parents(event.function)
    node: ast.AST | None = event.node
    while node is not None:
        if isinstance(node, ast.If):
            names = [one.id for one in walk(node.test) if isinstance(one, ast.Name)]
            if "hasattr" in names:
                return True
        node = parents.get(node)
    return False
