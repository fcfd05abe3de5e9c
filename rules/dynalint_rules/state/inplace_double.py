"""DYN506: an in-place method on a module's 0-dim float64 tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import InplaceChange, Project, Rule, Violation, walk
from dynalint_rules._code.state_creation import makers

_DOUBLE = frozenset({"float64", "double"})


class InplaceDouble(Rule):
    code = "DYN506"
    name = "inplace-double"
    summary = "An in-place change to a 0-dim float64 tensor is lost in compiled code"
    category = "miscompile"
    torch = "<2.14"
    events = (InplaceChange,)
    refusal = (
        "other code may hold a reference to the tensor; if none does, assign a new tensor with `self.n = "
        "self.n + 1` instead of `self.n += 1`"
    )

    def check(self, event: InplaceChange, project: Project) -> Iterable[Violation]:
        """Flag in-place methods on these tensors."""
        made = list(makers(event, project)) if event.method.endswith("_") else []
        if any(_makes_double(node) for statement in made for node in walk(statement)):
            yield Violation(
                event.statement,
                f"the change that `{event.method}` makes to `self.{event.home.name}`, a 0-dim float64 tensor, "
                "is lost in compiled code",
                help=f"Assign the new value, as in `self.{event.home.name} = self.{event.home.name} + ...`.",
            )


def _makes_double(node: ast.AST) -> bool:
    """Return whether an expression creates a 0-dim float64 tensor."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    dtypes = [keyword.value for keyword in node.keywords if keyword.arg == "dtype"]
    if not any(isinstance(dtype, ast.Attribute) and dtype.attr in _DOUBLE for dtype in dtypes):
        return False
    first = node.args[0] if node.args else None
    if node.func.attr in ("tensor", "scalar_tensor"):
        return isinstance(first, ast.Constant | ast.UnaryOp)
    return (
        node.func.attr in ("zeros", "ones", "empty", "full")
        and isinstance(first, ast.Tuple | ast.List)
        and not first.elts
    )
