"""A flag of a module that a branch on a tensor sets, which becomes a buffer that every call assigns to."""

from __future__ import annotations

import ast

from dynalint.analysis import kinds as k
from dynalint.analysis.index import FunctionInfo
from dynalint.rules import Replacement
from dynalint_rules._shared.scope import Refusal, Scope, torch_name
from dynalint_rules._shared.truth import is_tensor_test
from dynalint_rules._shared.uses import Attribute, Use, self_name


def is_flag(scope: Scope, name: str) -> bool:
    """Whether all that is stored under an attribute are True and False."""
    owner = scope.function.owner
    kind = scope.project.class_attribute(owner, name) if owner is not None else k.UNKNOWN
    return all(isinstance(one, k.Value) and one.type == "bool" and one.source != "data" for one in kind.members)


def edits_for_flag(scope: Scope, name: str) -> list[Replacement]:
    """Return what makes a flag a buffer, but for where branches on tensors set it in this function.

    Raises:
        Refusal: something reads it, or the constructor does not make it.
    """
    owner = scope.function.owner
    assert owner is not None
    edits, made = [], False
    for use in Attribute(owner, name, scope.project).uses():
        statement = use.statement()
        value = statement.value if isinstance(statement, ast.Assign) and statement.targets == [use.node] else None
        if not isinstance(value, ast.Constant) or use.function is None or not isinstance(statement, ast.Assign):
            verb = "sets" if use.stored else "reads"
            raise Refusal(f"{use.place} {verb} {use.quote(use.node)} as a Python bool; keep it in a buffer by hand")
        torch, imports = torch_name(use.function)
        if imports:
            raise Refusal(f"{use.file.path.name} does not import torch; keep `{name}` in a buffer by hand")
        if use.function.name == "__init__":
            if made or not _is_after_constructor(use.function, statement):
                raise Refusal(f"the constructor does not just set `{name}`; register it there as a buffer by hand")
            made, owner_name = True, self_name(use.function)
            text = f'{owner_name}.register_buffer("{name}", {torch}.tensor({bool(value.value)}), persistent=False)'
            edits.append(Replacement(use.file, *use.file.span(statement), text))
        elif not (use.function is scope.function and _is_decided_by_tensor(scope, use)):
            like = "ones_like" if value.value else "zeros_like"
            text = f"{torch}.{like}({use.file.segment(use.node)})"
            edits.append(Replacement(use.file, *use.file.span(value), text))
    if not made:
        raise Refusal(f"no constructor sets `{name}`; register it there as a buffer by hand")
    return edits


def _is_after_constructor(function: FunctionInfo, statement: ast.stmt) -> bool:
    """Whether a statement stands in a constructor itself, behind `super().__init__()`."""
    if statement not in function.statements:
        return False
    for one in function.statements[: function.statements.index(statement)]:
        call = one.value if isinstance(one, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "__init__":
            return True
    return False


def _is_decided_by_tensor(scope: Scope, use: Use) -> bool:
    node: ast.AST | None = use.node
    while node is not None and node is not scope.function.node:
        node = scope.parents.get(node)
        if isinstance(node, ast.If) and is_tensor_test(scope, node.test):
            return True
    return False
