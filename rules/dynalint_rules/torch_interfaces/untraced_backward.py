"""DYN619: an autograd function's `backward` that Dynamo cannot trace."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Declined, Project, Raising, Read, Rewrite, Rule, Violation, rw
from dynalint_rules._code.scope import Scope

_FUNCTION = "torch.autograd.Function"
_SAVED = f"{_FUNCTION}.saved_variables"


class UntracedBackward(Rule):
    code = "DYN619"
    name = "untraced-backward"
    summary = "A `backward` method that raises an exception breaks the graph where the function is applied"
    gb = ("GB0088", "GB0077")
    events = (Raising, Read)
    calls = frozenset({_SAVED})
    refusal = "the rewritten code would no longer raise the exception in `backward`; change it by hand"

    def check(self, event: Raising | Read, project: Project) -> Iterable[Violation]:
        """Flag the read, or a `raise` if it is all that a `backward` does."""
        if isinstance(event, Read):
            yield Violation(
                event.node,
                "Dynamo's `ctx` has no `saved_variables`, so the graph breaks where this function is applied",
                help="read `ctx.saved_tensors`",
            )
        elif isinstance(event, Raising) and _is_all_of_backward(event, project):
            yield Violation(
                event.node,
                "Dynamo traces `backward` where the function is applied, and this `raise` breaks the graph",
                help="compute under `torch.no_grad()`, without an autograd function",
            )

    def fix(self, event: Raising | Read, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Read the tensors by their newer name."""
        if not isinstance(event, Read) or not isinstance(event.node, ast.Attribute):
            return super().fix(event, violation, project)
        scope = Scope.of(event, project)
        edits = rw.written(scope.file, (event.node, f"{scope.text(event.node.value)}.saved_tensors"))
        return Rewrite("Read `saved_tensors` instead of `saved_variables`", "safe", edits)


def _is_all_of_backward(event: Raising, project: Project) -> bool:
    function = event.function
    if function.name != "backward" or function.owner is None or _FUNCTION not in project.lineage(function.owner)[1]:
        return False
    first = next((one for one in function.statements if not _is_docstring(one)), None)
    return first is event.node


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
