"""DYN505: a buffer that is changed in place and multiplied with what needs a gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, InplaceChange
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Rewrite, Rule, Violation
from dynalint_rules._shared.autograd import product_with

_METHODS = frozenset(
    "iadd isub imul itruediv ipow add_ sub_ subtract_ mul_ multiply_ div_ divide_ true_divide_ neg_ negative_ pow_ "
    "square_ sqrt_ rsqrt_ exp_ log_ reciprocal_".split()
)


class InplaceBuffer(Rule):
    code = "DYN505"
    name = "inplace-buffer"
    summary = "A buffer that is changed in place gives wrong gradients where it is a factor"
    category = "miscompile"
    events = (InplaceChange,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag updates in place whose result reaches a product that is differentiated."""
        assert isinstance(event, InplaceChange)
        if not _is_cheap(event, project):
            return
        factor = product_with(event, project)
        if factor is not None:
            yield Violation(
                event.statement,
                f"`self.{event.home.name}` is changed in place and is a factor in line {factor.lineno}: "
                "compiled code gets wrong gradients",
                help=f"Assign the new value: `self.{event.home.name} = self.{event.home.name} + ...`.",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: whoever has kept the tensor no longer sees updates after an assignment."""
        return Declined(
            "another name may hold the tensor; if none does, assign a new one: `self.n = self.n + 1` instead of "
            "`self.n += 1`"
        )


def _is_cheap(event: InplaceChange, project: Project) -> bool:
    """Whether the update is computed from numbers and buffers alone, so that the compiler repeats it."""
    if event.method not in _METHODS:
        return False
    kinds = project.kinds(event.function)
    operands = [node for node in _operands(event) if not k.is_number(kinds.get(node, k.UNKNOWN))]
    for operand in operands:
        for node in walk(operand):
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                kind = kinds.get(node)
                if isinstance(kind, k.Tensor) and kind.origin != "buffer":
                    return False
            if isinstance(node, ast.Call) and k.may_be_tensor(kinds.get(node, k.UNKNOWN)):
                return False
    return True


def _operands(event: InplaceChange) -> list[ast.expr]:
    """Return what an update combines the tensor with: the right side, or all arguments of a chain of methods."""
    statement = event.statement
    if isinstance(statement, ast.AugAssign):
        return [statement.value]
    return [argument for call in _chain(statement) for argument in [*call.args, *(kw.value for kw in call.keywords)]]


def _chain(statement: ast.stmt) -> list[ast.Call]:
    """The calls of `owner.name.first_(a).second_(b)`, a statement of its own, outermost first; empty for others."""
    calls: list[ast.Call] = []
    node = statement.value if isinstance(statement, ast.Expr) else None
    while isinstance(node, ast.Call):
        if not (isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")):
            return []
        calls.append(node)
        node = node.func.value
    return calls if isinstance(node, ast.Attribute) else []
