"""Reasons why a number read from a tensor cannot stay a tensor where it is used, each with the closest alternative."""

from __future__ import annotations

import ast

from dynalint_rules._code.scope import Scope
from dynalint_rules._code.size_arguments import SIZES

_NUMBERS = ("builtins.int", "builtins.float", "builtins.bool", "builtins.round")
SHOWS = ("builtins.print", "logging.", "warnings.")


def why_not(scope: Scope, parent: ast.AST, node: ast.expr, callee: str) -> str:
    """Return the reason, with advice for changing the code by hand. `callee` is the dotted name that `parent` calls."""
    quote, shown = scope.quote, scope.quote(node)
    if isinstance(parent, ast.Subscript | ast.Slice):
        return f"{shown} is an index or a slice bound; use `index_select`, or a mask over the whole dimension"
    if isinstance(parent, ast.If | ast.While | ast.IfExp | ast.BoolOp | ast.Assert) or _is_not(parent):
        return (
            f"{shown} decides a branch, and a tensor would also break the graph there; select with `torch.where` "
            "instead"
        )
    if isinstance(parent, ast.Call) and callee.startswith(SHOWS):
        return f"{shown} is only printed; move the statement under `if not torch.compiler.is_compiling():`"
    if isinstance(parent, ast.Call) and callee in SIZES:
        return (
            f"{quote(parent)} takes {shown} as a number that determines a shape; use an upper bound and mask "
            "the extra elements, or set `torch._dynamo.config.capture_scalar_outputs = True`"
        )
    if isinstance(parent, ast.Call) and callee not in _NUMBERS:
        return f"{quote(parent)} takes {shown} as a number; pass the tensor's `.detach()` if a tensor is acceptable"
    if isinstance(parent, ast.Expr):
        return f"the value of {shown} is not used; delete the statement"
    if isinstance(parent, ast.expr | ast.stmt):
        return f"{quote(parent)} needs {shown} as a number; read it after the compiled function has returned"
    return f"{shown} is needed as a number; read it after the compiled function has returned"


def _is_not(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
