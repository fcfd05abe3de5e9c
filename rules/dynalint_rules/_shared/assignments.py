"""An update of a tensor attribute in place, turned into the assignment of a new tensor."""

from __future__ import annotations

import ast

from dynalint.analysis import kinds as k
from dynalint.analysis.events import InplaceChange
from dynalint.analysis.project import Project
from dynalint.analysis.source import SourceFile, quote
from dynalint.analysis.steps import walk
from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.scope import Refusal

_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "**",
}
_METHOD_SIGNS = {"add_": "+", "sub_": "-", "mul_": "*", "div_": "/"}
_TIGHT = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)


def operands_of(event: InplaceChange) -> list[ast.expr]:
    """Return what an update combines the tensor with: the right side, or all arguments of a chain of methods."""
    statement = event.statement
    if isinstance(statement, ast.AugAssign):
        return [statement.value]
    return [argument for call in _chain(statement) for argument in [*call.args, *(kw.value for kw in call.keywords)]]


def assignment_form(event: InplaceChange, project: Project) -> Rewrite:
    """Return the rewrite of `self.n += v` or `self.n.add_(v)` into `self.n = self.n + v`.

    Raises:
        Refusal: the tensor must stay the same one, or the statement does more than update it.
    """
    file, statement, name = event.function.file, event.statement, event.home.name
    if isinstance(event.tensor, k.Tensor) and event.tensor.origin == "parameter":
        raise Refusal(
            f"`{name}` is a parameter, and an optimizer holds that very tensor; keep what is updated in a buffer"
        )
    other = _other_name(event)
    if other is not None:
        raise Refusal(
            f"`{other}` is another name for the same tensor and would keep the old value; "
            f"read `{name}` where it is needed instead"
        )
    text = _new_statement(file, event, project)
    conditions = [f"nobody else keeps the tensor that `{name}` holds and waits for its updates"]
    kinds = project.kinds(event.function)
    if not all(k.is_number(kinds.get(operand, k.UNKNOWN)) for operand in operands_of(event)):
        conditions.append(f"the result has the dtype and the shape of `{name}`")
    return Rewrite(
        title=f"Assign the new value of `{name}` instead of changing it in place",
        safety="conditional",
        replacements=(Replacement(file, *file.span(statement), text),),
        conditions=tuple(conditions),
    )


def _new_statement(file: SourceFile, event: InplaceChange, project: Project) -> str:
    statement = event.statement
    if isinstance(statement, ast.AugAssign) and type(statement.op) in _SIGNS:
        target = file.segment(statement.target)
        return f"{target} = {target} {_SIGNS[type(statement.op)]} {_operand(file, statement.value)}"
    calls = _chain(statement)
    if not calls:
        raise Refusal(
            f"{quote(file, statement)} does more than update the tensor; give the update a statement of its own"
        )
    for call in calls:
        if project.api.method(_method(call)[:-1]) is None:
            raise Refusal(
                f"`{_method(call)}` has no form that gives a new tensor; assign one of the same dtype by hand"
            )
    innermost = calls[-1].func
    assert isinstance(innermost, ast.Attribute)
    target = file.segment(innermost.value)
    if len(calls) == 1 and innermost.attr in _METHOD_SIGNS and len(calls[0].args) == 1 and not calls[0].keywords:
        return f"{target} = {target} {_METHOD_SIGNS[innermost.attr]} {_operand(file, calls[0].args[0])}"
    return f"{target} = {_without_underscores(file, calls)}"


def _without_underscores(file: SourceFile, calls: list[ast.Call]) -> str:
    """The text of a chain of methods with the underscore of each name dropped."""
    text = file.segment(calls[0])
    start, _ = file.span(calls[0])
    for call in calls:
        assert isinstance(call.func, ast.Attribute)
        # The name ends where the function expression ends; outer calls come first, so inner places stay as they are.
        _, end = file.span(call.func)
        text = text[: end - start - 1] + text[end - start :]
    return text


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _operand(file: SourceFile, node: ast.expr) -> str:
    text = file.segment(node)
    return text if isinstance(node, _TIGHT) else f"({text})"


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


def _other_name(event: InplaceChange) -> str | None:
    """A local name that the function gives to the tensor itself."""
    for node in walk(event.function.node):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr == event.home.name
        ):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    return target.id
    return None
