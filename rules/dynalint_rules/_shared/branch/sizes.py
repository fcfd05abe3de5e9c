"""Detect branches whose values visibly differ in size, so that `torch.where` cannot select between them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dynalint.rulekit import Refusal, k, walk
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.branch_values import BranchValue


def refuse_other_sizes(scope: Scope, sides: Sequence[BranchValue]) -> None:
    """Ensure that the values of the branches do not visibly differ in size.

    Raises:
        Refusal: If the size of a value is data-dependent, or one value is a part of the other.
    """
    texts = {side.name if side.node is None else scope.text(side.node) for side in sides}
    for node in (side.node for side in sides if side.node is not None):
        for child in walk(node):
            if isinstance(child, ast.expr) and _has_dynamic_size(scope, child):
                raise Refusal(
                    f"{scope.quote(child)} has a size that depends on data, but `torch.where` needs matching "
                    "sizes; keep all elements and weight them with a mask"
                )
        if isinstance(node, ast.Subscript) and _cuts(node.slice) and scope.text(node.value) in texts:
            raise Refusal(f"{scope.quote(node)} is smaller than {scope.quote(node.value)}; pad it to the same size")


def _has_dynamic_size(scope: Scope, node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return scope.tensor(node.value) is not None and any(_is_mask(scope, part) for part in parts)
    if isinstance(node, ast.Call):
        callee = scope.kind(node.func)
        api = scope.project.api
        if isinstance(callee, k.Method) and isinstance(callee.receiver, k.Tensor):
            entry = api.method(callee.name)
        else:
            entry = api.function(callee.name) if isinstance(callee, k.External) else None
        return entry is not None and all("dynamic_shape" in overload.flags for overload in entry.overloads)
    return False


def _cuts(index: ast.expr) -> bool:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(part, ast.Slice) and (part.lower or part.upper or part.step) for part in parts)


def _is_mask(scope: Scope, node: ast.expr) -> bool:
    tensor = scope.tensor(node)
    return tensor is not None and tensor.dtype == "bool"
