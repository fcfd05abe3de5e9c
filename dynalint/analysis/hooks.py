"""Modules with hooks. Backward hooks break the graph, and forward hooks are traced as part of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call
from dynalint.analysis.frame import Engine, Frame
from dynalint.analysis.index import FunctionInfo, ModuleInfo, walk_function
from dynalint.analysis.kinds import UNKNOWN, Kind
from dynalint.analysis.stores import note_forward

HOOKED = "torch.utils.hooks.BackwardHook.__call__"
"""The name that a rule watches to find calls such as `self.layer(...)` where `self.layer` has a backward hook."""

_RUN_IN_CALL = ("register_forward_hook", "register_forward_pre_hook")
_REGISTERING = ("register_backward_hook", "register_full_backward_hook", "register_full_backward_pre_hook")


def note_hook(frame: Frame, node: ast.Call, args: list[Kind]) -> None:
    """Record a hook that a call registers on a submodule of `self`, or emit a call to one with a backward hook."""
    if not isinstance(node.func, ast.Attribute) or not isinstance(frame.receiver, k.Instance):
        return
    interpreter, owner, name = frame.interpreter, frame.receiver.cls, node.func.attr
    if name in _REGISTERING or name in _RUN_IN_CALL:
        attribute = frame.self_attribute(node.func.value)
        on_self = isinstance(node.func.value, ast.Name) and node.func.value.id == frame.self_name
        if on_self and name in _RUN_IN_CALL and args:
            note_forward(frame, args[0])
        elif attribute is not None and name in _REGISTERING:
            interpreter.hooked.add((owner, attribute))
            interpreter.note_effect("hook", owner, attribute)
        elif attribute is not None and args:
            interpreter.hooks.setdefault((owner, attribute), {})[name, k.lasting(args[0])] = None
            interpreter.note_effect("hook", owner, attribute, name, args[0])
        return
    if not interpreter.hooked:
        return
    has_hook = any((cls, name) in interpreter.hooked for cls in interpreter.project.mro(owner))
    if has_hook and frame.self_attribute(node.func) is not None and interpreter.watched(HOOKED) is not None:
        frame.emit(Call, node, extra=HOOKED, callee=HOOKED, receiver=None, args=(), result=UNKNOWN)


def hooks_of(frame: Frame, node: ast.Call, args: list[Kind], result: Kind) -> Iterator[tuple[Kind, list[Kind]]]:
    """Yield the hooks that run when a submodule of `self` is called, each with its arguments."""
    attribute = frame.self_attribute(node.func)
    if attribute is None or not isinstance(frame.receiver, k.Instance):
        return
    for cls in frame.interpreter.project.mro(frame.receiver.cls):
        for name, hook in frame.interpreter.hooks.get((cls, attribute), ()):
            given: list[Kind] = [UNKNOWN, k.sequence("tuple", args)]
            yield hook, [*given, result] if name == "register_forward_hook" else given


def hooks_on_others(interpreter: Engine, module: ModuleInfo) -> Iterator[FunctionInfo]:
    """Yield the functions that a module's code registers as forward hooks, on any object, by their names.

    Nothing is interpreted for this, because the functions that register hooks often prepare a whole model.
    """
    if "register_forward_" not in module.file.text:
        return
    for function in [*module.functions, module.top]:
        for node in walk_function(function.node):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _RUN_IN_CALL:
                yield from _named(interpreter, function, node.args[0]) if node.args else ()


def _named(interpreter: Engine, function: FunctionInfo, hook: ast.expr) -> Iterator[FunctionInfo]:
    """Yield the functions that an argument may refer to.

    It may name a function, a method of the current class or a dict of functions, or be a `functools.partial`.
    """
    around = list(_around(function))
    if isinstance(hook, ast.Call) and hook.args and ast.unparse(hook.func).rpartition(".")[2] == "partial":
        yield from _named(interpreter, function, hook.args[0])
    elif isinstance(hook, ast.Attribute) and isinstance(hook.value, ast.Name) and hook.value.id == "self":
        owner, project = next((one.owner for one in around if one.owner is not None), None), interpreter.project
        below = [cls for cls in project.all_classes if owner in project.mro(cls)]
        yield from filter(None, dict.fromkeys(project.find_method(cls, hook.attr) for cls in below))
    else:
        name = ast.unparse(hook.value if isinstance(hook, ast.Subscript) else hook)
        inner = [one for one in function.module.functions if one.name == name and one.parent in around]
        kind = k.Function(inner[0]) if inner else interpreter.scopes.global_kind(function.module, name)
        kind = kind.value if isinstance(kind, k.Dictionary) else kind
        yield from (one.function for one in kind.members if isinstance(one, k.Function))


def _around(function: FunctionInfo | None) -> Iterator[FunctionInfo]:
    """Yield a function and those whose variables it closes over, innermost first."""
    while function is not None:
        yield function
        function = function.enclosing
