"""Statements of a branch that change a tensor in place."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint.analysis import kinds as k
from dynalint_rules._shared.memory import is_own
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.uses import self_name

# Views, never copies, of whatever tensor.
_VIEWS = ("squeeze", "unsqueeze", "view", "view_as", "t")


@dataclass(frozen=True)
class Change:
    """A statement that changes the tensor under a name.

    `text` is the new value, or with `by_index` what to write behind a copy to change that (`[0] = 1`). `values` are the
    expressions that are evaluated.
    """

    statement: ast.stmt
    name: str
    text: str
    values: tuple[ast.expr, ...]
    by_index: bool = False


def change_of(scope: Scope, statement: ast.stmt) -> Change | None:
    """Return what a statement changes of a tensor that no other name means, None if it is of another kind.

    What a caller hands over may need a gradient, and then nothing may be written to it, be it what it holds already.
    """
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _call(scope, statement, statement.value)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, ast.Subscript) and _is_own(scope, target.value, statement):
            name = scope.text(target.value)
            values = (target.slice, statement.value)
            return Change(statement, name, scope.text(statement)[len(name) :], values, by_index=True)
    return None


def _call(scope: Scope, statement: ast.stmt, call: ast.Call) -> Change | None:
    """`a.add_(b)`, where there is an `add` as well."""
    function = call.func
    if not isinstance(function, ast.Attribute) or not function.attr.endswith("_") or function.attr.endswith("__"):
        return None
    twin, owner = function.attr[:-1], function.value
    entry = scope.project.api.method(twin)
    if entry is None or "random" in entry.flags or not isinstance(scope.kind(function), k.Method):
        return None
    if not _is_own(scope, owner, statement):
        return None
    name = scope.text(owner)
    values = (*call.args, *(keyword.value for keyword in call.keywords))
    return Change(statement, name, f"{name}.{twin}{scope.text(call)[len(scope.text(function)) :]}", values)


def _is_own(scope: Scope, owner: ast.expr, statement: ast.stmt) -> bool:
    return isinstance(owner, ast.Name) and scope.tensor(owner) is not None and is_own(scope, owner.id, statement)


@dataclass(frozen=True)
class Filled:
    """A statement that writes into a tensor of the module, `target`, of the kind `old`.

    `text` is the new value, `values` are the expressions that are evaluated for it. With `hidden` it writes by `.data`,
    of which no gradient knows.
    """

    statement: ast.stmt
    target: ast.expr
    text: str
    values: tuple[ast.expr, ...]
    old: k.Tensor
    hidden: bool = False


def filled_of(scope: Scope, statement: ast.stmt) -> Filled | None:
    """Return what a statement writes by `copy_` or `fill_` into a tensor of the module, None if it is of another kind.

    A float takes its own value back without a change, whatever comes of it on the way; so does what is not a float,
    where a whole number is written.
    """
    call = statement.value if isinstance(statement, ast.Expr) else None
    while isinstance(call, ast.Call) and _is_view(call):
        assert isinstance(call.func, ast.Attribute)
        call = call.func.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or len(call.args) != 1:
        return None
    target, value = call.func.value, call.args[0]
    if call.func.attr not in ("copy_", "fill_") or call.keywords or isinstance(value, ast.Starred):
        return None
    hidden = isinstance(target, ast.Attribute) and target.attr == "data"
    held = target.value if isinstance(target, ast.Attribute) and hidden else target
    while hidden and isinstance(held, ast.Call) and _is_view(held):
        assert isinstance(held.func, ast.Attribute)
        held = held.func.value
    tensor = scope.tensor(held)
    if tensor is None or not isinstance(held, ast.Attribute) or not isinstance(held.value, ast.Name):
        return None
    if held.value.id != self_name(scope.function) or not (hidden or tensor.origin == "buffer"):
        return None
    whole = isinstance(value, ast.Constant) and type(value.value) in (int, bool)
    filled = Filled(statement, target, scope.text(value), (value,), tensor, hidden)
    return filled if tensor.dtype == "float" or whole else None


def updated_of(scope: Scope, statement: ast.stmt) -> Filled | None:
    """Return what a statement writes into a buffer by `add_` and its like, one after the other; None for another kind.

    What is not a float is taken only where whole numbers are, so that it stays of its kind.
    """
    node = statement.value if isinstance(statement, ast.Expr) else None
    text, values = "", []
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        method = node.func.attr
        twin = scope.project.api.method(method[:-1]) if method.endswith("_") and not method.endswith("__") else None
        if twin is None or "elementwise" not in twin.flags or "random" in twin.flags:
            return None
        text = f".{method[:-1]}{scope.text(node)[len(scope.text(node.func)) :]}{text}"
        values += [*node.args, *(keyword.value for keyword in node.keywords)]
        node = node.func.value
    tensor = scope.tensor(node) if isinstance(node, ast.Attribute) and values else None
    if tensor is None or tensor.origin != "buffer" or not isinstance(node, ast.Attribute):
        return None
    if not isinstance(node.value, ast.Name) or node.value.id != self_name(scope.function):
        return None
    whole = all(isinstance(value, ast.Constant) and type(value.value) is int for value in values)
    known = tensor.dtype == "float" or (tensor.dtype == "int" and whole and ".div" not in text)
    return Filled(statement, node, f"{scope.text(node)}{text}", tuple(values), tensor) if known else None


def _is_view(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in _VIEWS
