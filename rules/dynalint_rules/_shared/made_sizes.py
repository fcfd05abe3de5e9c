"""Sizes that a tensor gave to another, and that are numbers since.

After `x = y.new_zeros(n, 8)`, where `n` is a tensor, `x.shape[0]` is the number that `n` holds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dynalint.analysis import kinds as k
from dynalint.analysis.steps import walk
from dynalint_rules._shared.memory import may_change_in_place
from dynalint_rules._shared.names import last_assignment, loads
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.size_arguments import callee_name, sizes

# What makes a tensor of exactly the sizes given: none of these knows a -1 that stands for what is left.
_MAKERS = frozenset(
    {f"torch.{name}" for name in ("zeros", "ones", "empty", "rand", "randn")}
    | {f"Tensor.{name}" for name in ("new_zeros", "new_ones", "new_empty")}
)
_RESIZING = frozenset(
    "as_strided_ resize_ resize_as_ set_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_".split()
)


def made_size(scope: Scope, size: ast.expr, at: ast.stmt) -> str | None:
    """Return the text of the number that `size`, the name of a tensor, comes to at `at`; None if nothing shows it."""
    if not isinstance(size, ast.Name) or k.only_tensor(scope.kind(size)) is None or _resizes(scope):
        return None
    for name in dict.fromkeys(node.id for node in walk(scope.function.node) if isinstance(node, ast.Name)):
        made = last_assignment(scope, name, at)
        if made is None or name == size.id or not isinstance(made.value, ast.Call):
            continue
        place = _place(scope, made.value, size.id)
        if place is not None and not any(_is_bound_after(scope, one, made) for one in (name, size.id)):
            return f"{name}.shape[{place}]" if _is_only_read(scope, size.id) else None
    return None


def _place(scope: Scope, call: ast.Call, name: str) -> int | None:
    """Return which of the sizes of what a call makes is the value of a name."""
    given = call.args
    if len(given) == 1 and isinstance(given[0], ast.Tuple | ast.List):
        given = given[0].elts
    if callee_name(scope.kind(call.func)) not in _MAKERS or any(isinstance(one, ast.Starred) for one in given):
        return None
    return next((i for i, one in enumerate(given) if isinstance(one, ast.Name) and one.id == name), None)


def _is_only_read(scope: Scope, name: str) -> bool:
    """Whether the tensor under a name holds the same number as long as the function runs."""
    return not may_change_in_place(scope, name) and all(_reads(scope, one) for one in loads(scope, name))


def _reads(scope: Scope, node: ast.expr) -> bool:
    """Whether a use of a tensor neither changes it nor keeps it, nor anything that shares its memory."""
    parent = scope.parents.get(node)
    while isinstance(parent, ast.Tuple | ast.List):
        node, parent = parent, scope.parents.get(parent)
    if isinstance(parent, ast.Call):
        return node in sizes(callee_name(scope.kind(parent.func)), parent)
    if isinstance(parent, ast.Subscript):
        return parent.slice is node
    return isinstance(parent, ast.BinOp | ast.Compare | ast.Slice | ast.FormattedValue)


def _is_bound_after(scope: Scope, name: str, made: ast.Assign) -> bool:
    """Whether a name may get another value once `made` has run, before `made` runs again."""
    for node in walk(scope.function.node):
        if isinstance(node, ast.Nonlocal | ast.Global) and name in node.names:
            return True
        bound = _bound(node)
        if name in bound and node.lineno >= made.lineno and node not in walk(made):  # type: ignore[attr-defined]
            return True
    return False


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds or deletes."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.MatchAs | ast.MatchStar | ast.ExceptHandler | ast.FunctionDef | ast.ClassDef):
        yield node.name or ""


def _resizes(scope: Scope) -> bool:
    """Whether the function changes the sizes of any tensor in place, or hangs other data into one."""
    return any(
        isinstance(node, ast.Attribute)
        and (node.attr in _RESIZING or (node.attr == "data" and not isinstance(node.ctx, ast.Load)))
        for node in walk(scope.function.node)
    )
