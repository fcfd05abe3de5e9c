"""Modules with hooks. Backward hooks break the graph, and forward hooks are traced as part of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dynalint.analysis import kinds as k
from dynalint.analysis.decorators import made_by
from dynalint.analysis.events import Call
from dynalint.analysis.frame import Engine, Frame
from dynalint.analysis.index import FunctionInfo, ModuleInfo, walk_function
from dynalint.analysis.kinds import UNKNOWN, Kind
from dynalint.analysis.stores import note_forward

HOOKED = "torch.utils.hooks.BackwardHook.__call__"
"""The name that a rule watches to find calls such as `self.layer(...)` where `self.layer` has a backward hook."""

# `module.forward = ...`, where the module is not `self`.
_REPLACING = re.compile(r"(?<!\bself)(?<!\bcls)\.forward = (?!None\b)")
# These return their first argument, or a function that calls it.
_BINDING = ("partial", "update_wrapper", "MethodType")
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


def puts_in_place(text: str) -> bool:
    """Return whether code may put a function in place of the `forward` of another module, or around it."""
    if "register_forward_" in text:
        return True
    return ".forward = " in text and _REPLACING.search(text) is not None  # the pattern alone is slow to search for


def put_on_others(interpreter: Engine, module: ModuleInfo) -> Iterator[tuple[FunctionInfo, str]]:
    """Yield the functions that a module's code registers as forward hooks on any object, or assigns to its `forward`.

    Each comes with the predicate of a sentence about it. Nothing is interpreted for this, because the functions that
    register hooks often prepare a whole model.
    """
    if not puts_in_place(module.file.text):
        return
    for function in [*module.functions, module.top]:
        for node in walk_function(function.node):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _RUN_IN_CALL:
                for one in _named(interpreter, function, node.args[0]) if node.args else ():
                    yield one, "is a hook that is registered on another module"
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                target = node.targets[0]
                if target.attr == "forward" and ast.unparse(target.value) not in ("self", "cls"):
                    for one in _named(interpreter, function, node.value, target.value):
                        yield one, "replaces the `forward` of another module"


def _named(
    interpreter: Engine,
    function: FunctionInfo,
    hook: ast.expr,
    owner: ast.expr | None = None,
    followed: frozenset[str] = frozenset(),
) -> Iterator[FunctionInfo]:
    """Yield the functions that an argument may refer to.

    It may name a function, a method of the current class or of `owner`, or a dict of functions, be made by a function
    of the project, or be a `functools.partial`. `followed` are the local variables that have been looked up.
    """
    around, project = list(_around(function)), interpreter.project
    if isinstance(hook, ast.Call):
        if hook.args and ast.unparse(hook.func).rpartition(".")[2] in _BINDING:
            yield from _named(interpreter, function, hook.args[0], owner, followed)
        else:
            makers = _named(interpreter, function, hook.func, None, followed)
            yield from filter(None, (made_by(interpreter, maker) for maker in makers))
    elif isinstance(hook, ast.Attribute) and isinstance(hook.value, ast.Name) and hook.value.id == "self":
        cls = next((one.owner for one in around if one.owner is not None), None)
        below = [one for one in project.all_classes if cls in project.mro(one)]
        yield from filter(None, dict.fromkeys(project.find_method(one, hook.attr) for one in below))
    elif isinstance(hook, ast.Attribute) and owner is not None and ast.unparse(hook.value) == ast.unparse(owner):
        if hook.attr != "forward":
            modules = (one for one in project.all_classes if project.is_module_class(one))
            yield from filter(None, dict.fromkeys(one.methods.get(hook.attr) for one in modules))
    elif isinstance(hook, (ast.Name, ast.Subscript, ast.Attribute)):
        name = ast.unparse(hook.value if isinstance(hook, ast.Subscript) else hook)
        inner = [one for one in function.module.functions if one.name == name and one.parent in around]
        bound = [] if inner else _assigned(function, name)
        for value in bound if name not in followed else ():
            yield from _named(interpreter, function, value, owner, followed | {name})
        kind = k.Function(inner[0]) if inner else interpreter.scopes.global_kind(function.module, name)
        kind = kind.value if isinstance(kind, k.Dictionary) else kind
        yield from () if bound else (one.function for one in kind.members if isinstance(one, k.Function))


def _assigned(function: FunctionInfo, name: str) -> list[ast.expr]:
    """Return the expressions that a function assigns to a variable, if they may make or name a function."""
    found = (one for one in walk_function(function.node) if isinstance(one, ast.Assign))
    values = [one.value for one in found if any(isinstance(to, ast.Name) and to.id == name for to in one.targets)]
    return [one for one in values if isinstance(one, (ast.Call, ast.Attribute, ast.Subscript))]


def _around(function: FunctionInfo | None) -> Iterator[FunctionInfo]:
    """Yield a function and those whose variables it closes over, innermost first."""
    while function is not None:
        yield function
        function = function.enclosing
