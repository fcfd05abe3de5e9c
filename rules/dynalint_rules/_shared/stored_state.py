"""Statements of a branch that store a tensor of the module, or an element of a buffer: `self.best = loss.detach()`."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint.analysis import kinds as k
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.kinds import Kind
from dynalint.rules import Replacement
from dynalint_rules._shared.flags import edits_for_flag, is_flag
from dynalint_rules._shared.known_numbers import is_whole
from dynalint_rules._shared.names import only_value
from dynalint_rules._shared.scope import Refusal, Scope, as_tensor
from dynalint_rules._shared.uses import self_name

_FLAG = k.Tensor("bool", 0, "buffer")
_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_NEW = frozenset({"zeros", "ones", "full", "empty", "arange", "linspace", "eye", "tensor"})
_HOOKS = ("__setattr__", "__getattr__", "__getattribute__")
_WITHOUT_GRADIENT = ("no_grad", "inference_mode")


@dataclass(frozen=True)
class Store:
    """A statement that stores `value` under the attribute `target`, whose kind so far is `old`.

    With `sign` it is an augmented one, which stores the sum and the like. `edits` make a buffer of a flag. `index` is
    that of the one element that is stored.
    """

    statement: ast.stmt
    target: str
    value: ast.expr
    old: Kind
    sign: str = ""
    edits: tuple[Replacement, ...] = ()
    index: ast.expr | None = None


def store_of(scope: Scope, statement: ast.stmt) -> Store | None:
    """Return what a statement stores under an attribute of the module, None if it is of another kind.

    Raises:
        Refusal: it may not be stored on every call.
    """
    if not isinstance(statement, ast.Assign | ast.AugAssign):
        return None
    target, owner = _target(statement), scope.function.owner
    index = target.slice if isinstance(target, ast.Subscript) else None
    target = target.value if isinstance(target, ast.Subscript) else target
    sign = _SIGNS.get(type(statement.op), "?") if isinstance(statement, ast.AugAssign) else ""
    if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Name) or owner is None:
        return None
    if target.value.id != self_name(scope.function) or sign == "?" or len(getattr(statement, "targets", ())) > 1:
        return None
    if isinstance(statement.value, ast.Constant) and not sign and index is None and is_flag(scope, target.attr):
        edits = edits_for_flag(scope, target.attr)
        return Store(statement, scope.text(target), statement.value, _FLAG, edits=tuple(edits))
    old = scope.project.class_attribute(owner, target.attr)
    tensor = as_tensor(old)
    if tensor is None:
        return None
    if index is None and not _is_made_by_constructor(scope, target.attr):
        return None
    if index is not None and not _is_one_element(scope, target, index):
        return None
    shown = scope.quote(target)
    if any(hook in cls.methods for cls in scope.project.mro(owner) for hook in _HOOKS):
        raise Refusal(f"{shown} is no plain attribute; compute the new value with `torch.where` by hand")
    if not needs_no_gradient(scope, statement.value, statement):
        raise Refusal(f"{shown} would keep the graph of what is stored on every call; store its `.detach()`")
    return Store(statement, scope.text(_target(statement)), statement.value, old, sign, index=index)


def _is_one_element(scope: Scope, owner: ast.expr, index: ast.expr) -> bool:
    """Whether one place of a tensor of floats is stored to, which takes its own value back without a change."""
    tensor, named = scope.tensor(owner), isinstance(index, ast.Name | ast.Constant)
    whole = named and is_whole(scope.kind(index)) and tensor is not None and tensor.dtype == "float"
    return whole and _is_constant(scope, owner)


def _is_constant(scope: Scope, value: ast.expr) -> bool:
    """Whether an expression is an attribute of the module that holds a buffer, or a tensor made by its constructor."""
    owner, tensor = scope.function.owner, scope.tensor(value)
    if tensor is not None and tensor.origin == "buffer":
        return True
    if not isinstance(value, ast.Attribute) or not isinstance(value.value, ast.Name) or owner is None:
        return False
    if value.value.id != self_name(scope.function):
        return False
    stores = [one for cls in scope.project.mro(owner) for one in cls.stores.get(value.attr, ())]
    return bool(stores) and all(
        method.name == "__init__" and isinstance(statement, ast.Assign) and _is_new(scope, method, statement.value)
        for method, statement in stores
        if not (isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Subscript))
    )


def _is_new(scope: Scope, method: FunctionInfo, value: ast.expr) -> bool:
    """Whether an expression of another function makes a tensor of numbers that no gradient flows to."""
    if not isinstance(value, ast.Call) or any(one.arg in ("requires_grad", "out", None) for one in value.keywords):
        return False
    made = scope.project.kinds(method).get(value.func)
    return isinstance(made, k.External) and made.name.removeprefix("torch.") in _NEW


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


def _is_never_differentiable(scope: Scope, value: ast.expr) -> bool:
    """Whether an expression gives whole numbers, bools or no tensor at all."""
    kind = scope.kind(value)
    tensor = as_tensor(kind)
    plain = bool(kind.members) and all(isinstance(one, k.Value) for one in kind.members)
    return plain or isinstance(value, ast.Compare) or (tensor is not None and tensor.dtype in ("bool", "int"))


def needs_no_gradient(scope: Scope, value: ast.expr, statement: ast.stmt) -> bool:
    """Whether no gradient can flow back into an expression, other than one that the state has already."""
    target = _target(statement) if isinstance(statement, ast.Assign | ast.AugAssign) else None
    if target is not None and isinstance(value, ast.Attribute) and scope.text(value) == scope.text(target):
        return True
    if _is_never_differentiable(scope, value) or _is_constant(scope, value):
        return True
    if isinstance(value, ast.Name):
        made = only_value(scope, value.id, statement)
        return made is not None and needs_no_gradient(scope, made, statement)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        operands = [value.func.value, *value.args, *(keyword.value for keyword in value.keywords)]
        method = value.func.attr
        if method == "detach":
            return True
        if scope.kind(value.func) == k.External("torch.where") and len(value.args) == 3:
            return all(needs_no_gradient(scope, one, statement) for one in value.args[1:])
        if isinstance(scope.kind(value.func), k.Method) and method != "requires_grad_":
            return all(needs_no_gradient(scope, one, statement) for one in operands)
    if isinstance(value, ast.Subscript) and needs_no_gradient(scope, value.value, statement):
        return True
    if isinstance(value, ast.BinOp):
        return all(needs_no_gradient(scope, one, statement) for one in (value.left, value.right))
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
