"""Modules with hooks. Backward hooks break the graph, and forward hooks are traced as part of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call
from dynalint.analysis.frame import Frame
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
