"""DYN612: hooks that Dynamo does not support."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import (
    HOOKED,
    Call,
    Project,
    Rule,
    Violation,
    k,
    leads_to_raise,
    walk_function,
)

_REGISTERING = ("forward_hook", "forward_pre_hook", "backward_hook", "full_backward_hook", "full_backward_pre_hook")
_EFFECTS = frozenset("append extend add update insert setdefault".split())


class ModuleHook(Rule):
    code = "DYN612"
    name = "module-hook"
    summary = "A backward hook on a module, or a hook registered in compiled code, breaks the graph"
    gb = ("GB0083", "GB0104", "GB0467", "GB0067", "GB0059")
    events = (Call,)
    calls = frozenset({HOOKED, "Tensor.register_hook", *(f"torch.nn.Module.register_{name}" for name in _REGISTERING)})
    refusal = "the replacement depends on the purpose of the hook; only register it if the model is not compiled"

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag the call. A hook on a tensor is only flagged if it definitely changes an object outside the hook."""
        if leads_to_raise(event, project):
            return
        if event.callee == HOOKED:
            message = "calling this module breaks the graph, because Dynamo does not trace its backward hook"
        elif event.callee != "Tensor.register_hook":
            message = (
                f"`{event.callee.rpartition('.')[2]}()` changes the module that Dynamo is tracing, which breaks "
                "the graph"
            )
        elif _keeps_things(event.args[0] if event.args else event.keywords.get("hook")):
            message = "the hook modifies an object outside itself, which the backward graph cannot do"
        else:
            return
        yield Violation(
            event.node, message, help="register hooks before the call, and only if the model is not compiled"
        )


def _keeps_things(hook: k.Kind | None) -> bool:
    """Return whether a hook changes an object that it did not create."""
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
    """Return whether an expression starts with `self` or a name that the function does not assign."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return isinstance(node, ast.Name) and (node.id not in set(own) or node.id == "self")
