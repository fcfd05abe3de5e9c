"""DYN618: a test for the old `Variable` class, which is false for every tensor in compiled code."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Project, Rewrite, Rule, Violation, k, rw
from dynalint_rules._code.scope import Scope


class VariableCheck(Rule):
    code = "DYN618"
    name = "variable-check"
    summary = "Dynamo does not treat tensors as instances of `Variable`"
    gb = ("GB0088",)
    events = (Call,)
    calls = frozenset({"torch.autograd.Variable.__instancecheck__"})
    gives_up = True
    help = "use `isinstance(..., torch.Tensor)` instead"

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag the `raise` that is reached if the test fails or, if there is none, the test itself."""
        raised = _raised(event, project)
        if k.only_tensor(event.args[0]) is not None:
            yield Violation(
                event.node,
                "Dynamo cannot tell whether a tensor is a `Variable`, which breaks the graph",
                torch=">=2.14",
                gives_up=False,
            )
        if raised is not None:
            yield Violation(
                raised,
                "Dynamo does not treat tensors as `Variable`, so it reaches this `raise` and skips the function",
                torch="<2.14",
            )
        elif k.only_tensor(event.args[0]) is not None:
            yield Violation(
                event.node,
                "Dynamo does not treat tensors as `Variable`, so compiled code takes a different path from eager code",
                category="miscompile",
                torch="<2.14",
            )

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Test for a tensor."""
        scope = Scope.of(event, project)
        edits = rw.written(scope.file, (event.node.args[1], rw.name(f"{scope.torch}.Tensor")))
        return Rewrite("Test for `torch.Tensor` instead of `Variable`", "safe", edits, (), scope.imports)


def _raised(event: Call, project: Project) -> ast.Raise | None:
    """Return the `raise` that is reached if the test is false, or None if this depends on anything else."""
    parents = project.parents(event.function)
    node: ast.AST = event.node
    parent = parents.get(node)
    negated = isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)
    if negated and parent is not None:
        node, parent = parent, parents.get(parent)
    if not isinstance(parent, ast.If) or parent.test is not node:
        return None
    side = parent.body if negated else parent.orelse
    return side[0] if side and isinstance(side[0], ast.Raise) else None
