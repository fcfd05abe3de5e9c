"""Modules with a hook on their backward pass, a call of which is no call like others to Dynamo."""

from __future__ import annotations

import ast

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call
from dynalint.analysis.frame import Frame
from dynalint.analysis.kinds import UNKNOWN

HOOKED = "torch.utils.hooks.BackwardHook.__call__"
"""The name under which a rule watches for calls of `self.layer(...)` where `self.layer` has such a hook."""

_REGISTERING = ("register_backward_hook", "register_full_backward_hook", "register_full_backward_pre_hook")


def note_hook(frame: Frame, node: ast.Call) -> None:
    """Take note that a call puts a hook on a submodule of `self`, or emit that it calls one that has a hook."""
    if not isinstance(node.func, ast.Attribute) or not isinstance(frame.receiver, k.Instance):
        return
    interpreter, owner, name = frame.interpreter, frame.receiver.cls, node.func.attr
    if name in _REGISTERING:
        attribute = frame.self_attribute(node.func.value)
        if attribute is not None:
            interpreter.hooked.add((owner, attribute))
        return
    if not interpreter.hooked:
        return
    has_hook = any((cls, name) in interpreter.hooked for cls in interpreter.project.mro(owner))
    if has_hook and frame.self_attribute(node.func) is not None and interpreter.watched(HOOKED) is not None:
        frame.emit(Call, node, extra=HOOKED, callee=HOOKED, receiver=None, args=(), result=UNKNOWN)
