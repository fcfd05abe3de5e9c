"""DYN612: hooks that Dynamo has no place for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from dynalint.rulekit import (
    HOOKED,
    Call,
    Declined,
    FunctionInfo,
    Project,
    Refusal,
    Rewrite,
    Rule,
    Violation,
    k,
    leads_to_raise,
    walk,
    walk_function,
)
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.guard.statements import taken_out

_REGISTERING = ("forward_hook", "forward_pre_hook", "backward_hook", "full_backward_hook", "full_backward_pre_hook")
_EFFECTS = frozenset("append extend add update insert setdefault".split())


class ModuleHook(Rule):
    code = "DYN612"
    name = "module-hook"
    summary = "A backward hook on a module, or a hook registered in compiled code, breaks the graph"
    gb = ("GB0083", "GB0104", "GB0467", "GB0067", "GB0059")
    events = (Call,)
    calls = frozenset({HOOKED, "Tensor.register_hook", *(f"torch.nn.Module.register_{name}" for name in _REGISTERING)})

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag the call; a hook on a tensor only where its body is known to change something."""
        if leads_to_raise(event, project):
            return
        if event.callee == HOOKED:
            message = "this module has a backward hook, which Dynamo does not trace, so the graph breaks at its call"
        elif event.callee != "Tensor.register_hook":
            message = (
                f"`{event.callee.rpartition('.')[2]}()` changes the module that Dynamo is tracing, which breaks "
                "the graph"
            )
        elif _keeps_things(event.args[0] if event.args else event.keywords.get("hook")):
            message = "the hook stores something outside itself, which the backward graph cannot do"
        else:
            return
        yield Violation(event.node, message, help="register hooks beforehand, and only without compilation")

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Take out a hook that does nothing; what another one is for decides what can stand for it."""
        if event.callee == HOOKED:
            with suppress(Refusal):
                return _without_idle_hook(Scope.of(event, project), event)
        return Declined("the replacement depends on the purpose of the hook; register it only without compilation")


def _without_idle_hook(scope: Scope, event: Call) -> Rewrite:
    """Take out the statement by which the constructor puts a hook on the module, of a function that does nothing.

    Raises:
        Refusal: there is more than one, or what the hook does is not nothing.
    """
    called, owner = event.node.func, scope.function.owner
    methods = [one for cls in scope.project.mro(owner) for one in cls.methods.values()] if owner is not None else []
    found = [(method, one) for method in methods for one in _registrations(method, called)]
    if len(found) != 1 or owner is None:
        raise Refusal("the code does not show which hooks the module has")
    method, statement = found[0]
    hook = statement.value.args[0] if isinstance(statement.value, ast.Call) and statement.value.args else None
    named = hook.attr if isinstance(hook, ast.Attribute) and ast.unparse(hook.value) == "self" else ""
    function = scope.project.find_method(owner, named)
    if method.name != "__init__" or function is None or not all(map(_does_nothing, function.statements)):
        raise Refusal("the hook has an effect")
    inner = replace(scope, function=method, parents=scope.project.parents(method))
    condition = f"nothing else registers a hook on {scope.quote(called)}"
    return taken_out(inner, statement, "Remove the hook, which has no effect", "conditional", (condition,))


def _registrations(method: FunctionInfo, module: ast.expr) -> Iterator[ast.Expr]:
    """Yield the statements of a method that put a hook on the backward pass of a module."""
    for node in walk(method.node):
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(node, ast.Expr) or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        if "backward" in call.func.attr and ast.unparse(call.func.value) == ast.unparse(module):
            yield node


def _does_nothing(statement: ast.stmt) -> bool:
    """Whether a statement of a hook leaves nothing behind, and returns nothing: a generator is made, and never run."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Assign):
        value = statement.value
        first = value.generators[0].iter if isinstance(value, ast.GeneratorExp) else value
        size = re.fullmatch(r"range\(len\(\w+\)\)", ast.unparse(first))
        plain = isinstance(first, ast.Name | ast.Constant) or bool(size)
        return plain and all(isinstance(one, ast.Name) for one in statement.targets)
    nothing = isinstance(statement, ast.Return) and (statement.value is None or ast.unparse(statement.value) == "None")
    return nothing or isinstance(statement, ast.Pass)


def _keeps_things(hook: k.Kind | None) -> bool:
    """Whether a hook is a function that changes what it has not made itself."""
    if isinstance(hook, k.Method):
        return hook.name in _EFFECTS and isinstance(hook.receiver, k.Sequence | k.Dictionary)
    if not isinstance(hook, k.Function):
        return False
    function = hook.function
    for node in walk_function(function.node):
        if isinstance(node, ast.Nonlocal | ast.Global):
            return True
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            if _is_foreign(node.value, function.locals):
                return True
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id == "setattr" and node.args:
                return _is_foreign(node.args[0], function.locals)
            if (
                isinstance(called, ast.Attribute)
                and called.attr in _EFFECTS
                and _is_foreign(called.value, function.locals)
            ):
                return True
    return False


def _is_foreign(node: ast.expr, own: Iterable[str]) -> bool:
    """Whether an expression starts at a name that the function does not set itself, `self` included."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return isinstance(node, ast.Name) and (node.id not in set(own) or node.id == "self")
