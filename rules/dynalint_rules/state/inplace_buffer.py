"""DYN505: a buffer that is changed in place and multiplied by a tensor that needs a gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Declined, InplaceChange, Project, Rewrite, Rule, Violation, k, rw, walk
from dynalint_rules._code.autograd import product_with

_METHODS = frozenset(
    "iadd isub imul itruediv ipow add_ sub_ subtract_ mul_ multiply_ div_ divide_ true_divide_ neg_ negative_ pow_ "
    "square_ sqrt_ rsqrt_ exp_ log_ reciprocal_".split()
)


_OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}


class InplaceBuffer(Rule):
    code = "DYN505"
    name = "inplace-buffer"
    summary = "Multiplying by a buffer that is updated in place gives wrong gradients"
    category = "miscompile"
    events = (InplaceChange,)

    def check(self, event: InplaceChange, project: Project) -> Iterable[Violation]:
        """Flag in-place updates whose result reaches a differentiable product."""
        if not _is_cheap(event, project):
            return
        factor = product_with(event, project)
        if factor is not None:
            yield Violation(
                event.statement,
                f"`self.{event.home.name}` is updated in place and multiplied on line {factor.lineno}, which "
                "gives wrong gradients in compiled code",
                help=f"Assign the new value, as in `self.{event.home.name} = self.{event.home.name} + ...`.",
            )

    def fix(self, event: InplaceChange, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Assign the buffer's new value, unless the function has another name for the same tensor."""
        statement, name = event.statement, event.home.name
        if isinstance(event.tensor, k.Tensor) and event.tensor.origin == "parameter":
            return Declined(
                f"`self.{name}` is a parameter, and an optimizer may hold a reference to it; update it outside the "
                "model"
            )
        operator = _OPERATORS.get(type(statement.op)) if isinstance(statement, ast.AugAssign) else None
        if not isinstance(statement, ast.AugAssign) or operator is None:
            return Declined(
                f"the update is a method call; write it as an assignment, such as `self.{name} = "
                f"self.{name}.mul(0.9).add(v)`"
            )
        if (other := _other_name(event)) is not None:
            return Declined(f"`{other}` is another name for the same tensor, and would not see the new value")
        file = event.function.file
        target, value = file.segment(statement.target), file.segment(statement.value)
        if not isinstance(statement.value, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant):
            value = f"({value})"
        edits = rw.written(file, (statement, [f"{target} = {target} {operator} {value}"]))
        kept = f"no other code holds a reference to the tensor `self.{name}` and relies on seeing its changes"
        return Rewrite("Assign the new value", "conditional", edits, (kept,))


def _other_name(event: InplaceChange) -> str | None:
    """Return another name that the function has for the same tensor, or None."""
    for node in walk(event.function.node):
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.Assign) and isinstance(value, ast.Attribute) and value.attr == event.home.name:
            return ast.unparse(node.targets[0])
    return None


def _is_cheap(event: InplaceChange, project: Project) -> bool:
    """Return whether the update only uses numbers and buffers, so that the backward pass recomputes it."""
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
    """Return the operands of an update: the right-hand side, or all arguments of chained methods."""
    statement = event.statement
    if isinstance(statement, ast.AugAssign):
        return [statement.value]
    return [argument for call in _chain(statement) for argument in [*call.args, *(kw.value for kw in call.keywords)]]


def _chain(statement: ast.stmt) -> list[ast.Call]:
    """Return the calls in a statement `owner.name.first_(a).second_(b)`, outermost first, or an empty list."""
    calls: list[ast.Call] = []
    node = statement.value if isinstance(statement, ast.Expr) else None
    while isinstance(node, ast.Call):
        if not (isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")):
            return []
        calls.append(node)
        node = node.func.value
    return calls if isinstance(node, ast.Attribute) else []
