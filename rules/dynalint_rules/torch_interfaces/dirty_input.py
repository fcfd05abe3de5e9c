"""DYN616: an autograd function that changes its input in place."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Call, Project, Rule, Violation, walk


class DirtyInput(Rule):
    code = "DYN616"
    name = "dirty-input"
    summary = "An autograd function that marks an input as modified breaks the graph"
    gb = ("GB2464", "GB2019", "GB0092")
    events = (Call,)
    calls = frozenset({"torch.autograd.Function.mark_dirty"})
    torch = ">=2.13"
    refusal = "the caller may rely on the change to its tensor; if it does not, compute out of place"

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag every call to `mark_dirty`."""
        if _returns_marked(event):
            message = (
                "`mark_dirty` breaks the graph where this function is applied, unless an argument requires a gradient"
            )
            yield Violation(event.node, message, help="compute out of place", severity="info")
        else:
            message = (
                "the graph breaks where this function is applied, because it marks an argument that it does not return"
            )
            yield Violation(event.node, message, help="compute out of place")


def _returns_marked(event: Call) -> bool:
    """Return whether every `return` returns the marked arguments under the same names."""
    marked = {one.id for one in event.node.args if isinstance(one, ast.Name)}
    returned = [node.value for node in walk(event.function.node) if isinstance(node, ast.Return)]
    parts = [one.elts if isinstance(one, ast.Tuple) else [one] for one in returned]
    names = [{one.id for one in part if isinstance(one, ast.Name)} for part in parts]
    return len(marked) == len(event.node.args) and bool(names) and all(marked <= one for one in names)
