"""DYN716: attributes that are set on functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event, Write
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward


class FunctionAttribute(Rule):
    """Set an attribute of a function while a model runs.

    ## What it flags

    `helper.cache = value` and `setattr(helper, "cache", value)` on a function, in code that is compiled; as advice
    behind `if not hasattr(helper, "cache"):`, where only the first call breaks. Not flagged:
    reading such an attribute, and setting one on `self`, a class or a module, which Dynamo traces.

    ## Why

    It is a way to keep something from one call to the next. Dynamo keeps track of what is stored on objects, and has no
    code for functions among them.

    ## Example

    ```python
    def positions(x):
        if getattr(positions, "size", None) != x.shape[1]:
            positions.size = x.shape[1]
            positions.table = torch.arange(x.shape[1])
        return positions.table
    ```

    Use instead:

    ```python
    def positions(x):
        return torch.arange(x.shape[1])
    ```

    ## How it is rewritten

    It is not: compute the value again, which a graph does cheaply, or keep it in a buffer of the module.

    ## When the rewrite is not exact

    There is none.

    ## How Dynamo words it

    GB0467: `setattr() on unsupported type`.

    ## References

    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0467.html
    """

    code = "DYN716"
    name = "function-attribute"
    summary = "setting an attribute of a function ends the graph"
    gb = ("GB0467", "GB0059")
    events = (Write, Call)
    calls = frozenset({"function.*", "builtins.setattr"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
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
            yield Violation(event.node, f"{message}; only the first call comes here", category="advice")
        else:
            yield Violation(event.node, message)

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: the value has to live elsewhere."""
        return Declined("compute the value again, or keep it in a buffer of the module")

    examples = (
        Example(
            name="cache",
            code=forward(
                """
                h = self.fc(x)
                shifted.last = h  # DYN716
                return shifted(h)
                """,
                head="""
                def shifted(value):
                    return value + 1
                """,
            ),
            declined="in a buffer",
        ),
        Example(
            name="setattr",
            code=forward(
                """
                h = self.fc(x)
                setattr(shifted, "steps", 3)  # DYN716
                return shifted(h)
                """,
                head="""
                def shifted(value):
                    return value + 1
                """,
            ),
        ),
        Example(
            name="first-call-only",
            code=forward(
                """
                h = self.fc(x)
                if not hasattr(shifted, "steps"):
                    shifted.steps = 3  # DYN716
                return shifted(h)
                """,
                head="""
                def shifted(value):
                    return value + shifted.steps
                """,
            ),
            shows="graph-break",
        ),
        Example(
            name="read",
            code=forward(
                """
                h = shifted(self.fc(x))
                self.last = h
                setattr(self, "steps", 3)
                return h * shifted.scale
                """,
                head="""
                def shifted(value):
                    return value + 1


                shifted.scale = 2
                """,
            ),
        ),
    )


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
