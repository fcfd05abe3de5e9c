"""Statements of a branch that store a tensor of the module: `self.best = loss.detach()`."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint.analysis import kinds as k
from dynalint.analysis.kinds import Kind
from dynalint.rules import Replacement
from dynalint_rules._shared.flags import edits_for_flag, is_flag
from dynalint_rules._shared.names import only_value
from dynalint_rules._shared.scope import Refusal, Scope, as_tensor
from dynalint_rules._shared.uses import self_name

_FLAG = k.Tensor("bool", 0, "buffer")
_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_HOOKS = ("__setattr__", "__getattr__", "__getattribute__")
_WITHOUT_GRADIENT = ("no_grad", "inference_mode")


@dataclass(frozen=True)
class Store:
    """A statement that stores `value` under the attribute `target`, whose kind so far is `old`.

    With `sign` it is an augmented one, which stores the sum and the like. `edits` make a buffer of a flag.
    """

    statement: ast.stmt
    target: str
    value: ast.expr
    old: Kind
    sign: str = ""
    edits: tuple[Replacement, ...] = ()


def store_of(scope: Scope, statement: ast.stmt) -> Store | None:
    """Return what a statement stores under an attribute of the module, None if it is of another kind.

    Raises:
        Refusal: it may not be stored on every call.
    """
    if not isinstance(statement, ast.Assign | ast.AugAssign):
        return None
    target, owner = _target(statement), scope.function.owner
    sign = _SIGNS.get(type(statement.op), "?") if isinstance(statement, ast.AugAssign) else ""
    if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Name) or owner is None:
        return None
    if target.value.id != self_name(scope.function) or sign == "?" or len(getattr(statement, "targets", ())) > 1:
        return None
    if isinstance(statement.value, ast.Constant) and not sign and is_flag(scope, target.attr):
        edits = edits_for_flag(scope, target.attr)
        return Store(statement, scope.text(target), statement.value, _FLAG, edits=tuple(edits))
    old = scope.project.class_attribute(owner, target.attr)
    tensor = as_tensor(old)
    if tensor is None or not _is_made_by_constructor(scope, target.attr):
        return None
    shown = scope.quote(target)
    if any(hook in cls.methods for cls in scope.project.mro(owner) for hook in _HOOKS):
        raise Refusal(f"{shown} is no plain attribute; compute the new value with `torch.where` by hand")
    if not _needs_no_gradient(scope, statement.value, statement):
        raise Refusal(f"{shown} would keep the graph of what is stored on every call; store its `.detach()`")
    return Store(statement, scope.text(target), statement.value, old, sign)


def _target(statement: ast.Assign | ast.AugAssign) -> ast.expr:
    return statement.targets[0] if isinstance(statement, ast.Assign) else statement.target


def _is_made_by_constructor(scope: Scope, name: str) -> bool:
    """Whether the constructor always gives the module the attribute, and not as a parameter."""
    owner = scope.function.owner
    for cls in scope.project.mro(owner) if owner is not None else ():
        for method, statement in cls.stores.get(name, ()):
            if method.name == "__init__" and statement in method.statements:
                made = scope.project.kinds(method).get(getattr(statement, "value", statement), k.UNKNOWN)
                return not any(isinstance(one, k.Tensor) and one.origin == "parameter" for one in made.members)
    return False


def _needs_no_gradient(scope: Scope, value: ast.expr, statement: ast.Assign | ast.AugAssign) -> bool:
    """Whether no gradient can flow back into an expression, other than one that the state has already."""
    if isinstance(value, ast.Attribute) and scope.text(value) == scope.text(_target(statement)):
        return True
    tensor = as_tensor(scope.kind(value))
    if tensor is not None and (tensor.dtype in ("bool", "int") or tensor.origin == "buffer"):
        return True
    if isinstance(value, ast.Name):
        made = only_value(scope, value.id, statement)
        return made is not None and _needs_no_gradient(scope, made, statement)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        method, operands = value.func.attr, [value.func.value, *value.args]
        if method == "detach":
            return True
        if isinstance(scope.kind(value.func), k.Method) and method != "requires_grad_" and not value.keywords:
            return all(_needs_no_gradient(scope, one, statement) for one in operands)
    if isinstance(value, ast.BinOp):
        return all(_needs_no_gradient(scope, one, statement) for one in (value.left, value.right))
    if k.is_number(scope.kind(value)):
        return True
    node: ast.AST | None = statement
    while node is not None and node is not scope.function.node:
        if isinstance(node, ast.With) and any(_switches_off(item.context_expr) for item in node.items):
            return True
        node = scope.parents.get(node)
    return any(_switches_off(one) for one in getattr(scope.function.node, "decorator_list", ()))


def _switches_off(made: ast.expr) -> bool:
    """Whether an expression is `torch.no_grad()` or `torch.inference_mode()`, or the class itself as a decorator."""
    function = made.func if isinstance(made, ast.Call) else made
    named = isinstance(function, ast.Attribute) and function.attr in _WITHOUT_GRADIENT
    return named and not (isinstance(made, ast.Call) and (made.args or made.keywords))
