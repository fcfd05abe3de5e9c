"""What a call calls, and what the call does to its arguments."""

from __future__ import annotations

import ast

from dynalint.rulekit import k, torch_api
from dynalint_rules._code.scope import Scope


def callee(scope: Scope, node: ast.Call) -> str:
    """Return a callee's dotted name as in events, such as "torch.full" or "Tensor.item", or "" if it is unknown."""
    kind = scope.kind(node.func)
    if isinstance(kind, k.External):
        return str(scope.project.api.canonical(kind.name))
    if isinstance(kind, k.Method):
        owner = k.only_tensor(kind.receiver)
        if owner is not None:
            return f"Tensor.{kind.name}"
        if isinstance(kind.receiver, k.Object):
            return f"{kind.receiver.type}.{kind.name}"
    return ""


def may_work_in_place(scope: Scope, name: str, call: ast.Call) -> bool:
    """Return whether a call to a torch function may modify its argument, as `F.relu` does with `inplace=True`."""
    entry = scope.project.api.function(name)
    overloads = entry.overloads if entry is not None else ()
    modifying = [one for one in overloads if "mutating" in one.flags]
    return len(modifying) == len(overloads) > 0 or any(_may_select(overload, call) for overload in modifying)


def _may_select(overload: torch_api.Overload, call: ast.Call) -> bool:
    """Return whether a call may pass a true `inplace`, which selects an overload."""
    names = [parameter.name for parameter in overload.parameters or ()]
    if "inplace" not in names or any(isinstance(one, ast.Starred) for one in call.args):
        return True
    place = names.index("inplace")
    given = [*call.args[place : place + 1], *(one.value for one in call.keywords if one.arg in ("inplace", None))]
    return any(not (isinstance(one, ast.Constant) and not one.value) for one in given)


def calls_in_chain(last: ast.Call) -> list[ast.Call]:
    """Return the calls of a chain such as `x.add_(1).sqrt_()`, whose last call is given, in the order they run."""
    calls = [last]
    while isinstance(calls[0].func, ast.Attribute) and isinstance(calls[0].func.value, ast.Call):
        calls.insert(0, calls[0].func.value)
    return calls


def reads_among(scope: Scope, node: ast.expr) -> list[ast.Call]:
    """Return the calls of `.item()` that arithmetic makes a number of, as in `2 * t.item() + 1`."""
    if isinstance(node, ast.BinOp):
        return [*reads_among(scope, node.left), *reads_among(scope, node.right)]
    if isinstance(node, ast.UnaryOp):
        return reads_among(scope, node.operand)
    return [node] if isinstance(node, ast.Call) and callee(scope, node) == "Tensor.item" else []
