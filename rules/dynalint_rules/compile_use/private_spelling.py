"""DYN011: a private name in torch's compiler that has a public equivalent."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import CompilerUse, Declined, Project, Rewrite, Rule, Violation, rw, walk_function
from dynalint_rules._code.scope import torch_name

# One function in each pair just calls the other.
_PUBLIC = {
    f"torch._dynamo.{name}": f"torch.compiler.{name}"
    for name in (
        "allow_in_graph", "assume_constant_result", "disable", "is_compiling", "list_backends", "reset", "set_stance",
        "substitute_in_graph",
    )
} | {
    "torch._dynamo.external_utils.is_compiling": "torch.compiler.is_compiling",
    "torch._utils.is_compiling": "torch.compiler.is_compiling",
}  # fmt: skip
# The public replacements of these functions take different arguments.
_SUCCEEDED = {
    "torch._dynamo.optimize": "torch.compile(backend=...)",
    "torch._dynamo.optimize_assert": "torch.compile(fullgraph=True)",
    "torch._dynamo.export": "torch.export.export",
}


def _is_fallback(event: CompilerUse, public: str, project: Project) -> bool:
    """Return whether the code only uses the private name if torch has no public one."""
    asked = public.partition("(")[0].split(".")[1:]
    parents = project.parents(event.function)
    node: ast.AST | None = event.node
    while node is not None:
        if isinstance(node, ast.Try) and any(_catches_absence(handler) for handler in node.handlers):
            return True
        node = parents.get(node)
    return any(
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in ("hasattr", "getattr")
        and len(call.args) > 1
        and isinstance(call.args[1], ast.Constant)
        and call.args[1].value in asked
        for call in walk_function(event.function.node)
    )


def _catches_absence(handler: ast.ExceptHandler) -> bool:
    caught = "" if handler.type is None else ast.unparse(handler.type)
    return handler.type is None or any(name in caught for name in ("AttributeError", "ImportError", "Exception"))


class PrivateSpelling(Rule):
    code = "DYN011"
    name = "private-spelling"
    summary = "A private torch compiler API is used although it has a public equivalent"
    category = "advice"
    severity = "info"
    events = (CompilerUse,)

    def check(self, event: CompilerUse, project: Project) -> Iterable[Violation]:
        """Flag names that have a public equivalent."""
        public = _PUBLIC.get(event.name) or _SUCCEEDED.get(event.name)
        if public is not None and not _is_fallback(event, public, project):
            yield Violation(
                event.node,
                f"`{event.name}` is a private API, and `{public}` is its public equivalent",
                help=f"Use `{public}`.",
            )

    def fix(self, event: CompilerUse, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Use the public name."""
        public = _PUBLIC.get(event.name)
        if public is None:
            return Declined(f"`{_SUCCEEDED[event.name]}` takes different arguments; rewrite the call")
        name, imports = torch_name(event.function)
        spelled = f"{name}{public.removeprefix('torch')}"
        edits = rw.written(event.function.file, (event.node, rw.name(spelled)))
        return Rewrite(f"Replace with `{spelled}`", "safe", edits, imports=imports)
