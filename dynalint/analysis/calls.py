"""Evaluate calls: find the callee, evaluate the arguments and compute the result."""

from __future__ import annotations

import ast

from dynalint.analysis import kinds as k
from dynalint.analysis import torch_api
from dynalint.analysis.builtin_calls import builtin_call, layer_by_default, taken
from dynalint.analysis.callbacks import DERIVATIVES, VECTORISED, callback_arguments, result_with_callback
from dynalint.analysis.containers import container_method
from dynalint.analysis.decorators import STATIC_OBJECT, calls_static_object, kept_back, wrappers_of
from dynalint.analysis.dispatch import evaluate, evaluates
from dynalint.analysis.elements import element_of
from dynalint.analysis.events import Call, Ordering
from dynalint.analysis.externals import SEQUENTIAL, SOME_LAYER, external_call, layer_call
from dynalint.analysis.facts import forget_by_call
from dynalint.analysis.frame import Frame
from dynalint.analysis.functions import DISABLED, call_function, keeping_out
from dynalint.analysis.hooks import hooks_of, note_hook
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.instances import instance_call, instantiate
from dynalint.analysis.kinds import NOTHING, UNKNOWN, Kind, join, join_all
from dynalint.analysis.members import never_had, trace_backward
from dynalint.analysis.method_calls import object_method, store_by_name, tensor_method
from dynalint.analysis.named_attributes import name_of
from dynalint.analysis.noting import note_call, note_inherited, note_installed
from dynalint.analysis.selected_members import CHILDREN, listed, named_member
from dynalint.analysis.signatures import may_take
from dynalint.analysis.sparse import made_sparse, note_sparse_method
from dynalint.analysis.torch_calls import torch_call
from dynalint.analysis.usage import method_of_tensors, note_arguments, note_converted, note_masks, unknown_method

Arguments = tuple[list[Kind], dict[str, Kind], list[Kind]]

_COMPILING = ("torch.compile", "torch._dynamo.optimize")
_DISABLING = ("torch.compiler.disable", "torch._dynamo.disable", "torch._disable_dynamo")
_HANDING_BACK = (
    "functools.lru_cache",
    "functools.update_wrapper",
    "functools.wraps",
    "torch.jit.script",
)
_ORDERING = ("builtins.sorted", "builtins.min", "builtins.max")
# These turn a module into a script. Functions stay unchanged for Dynamo, which traces the original function.
_SCRIPTING = ("torch.jit.script", "torch.jit.trace", "torch.jit.freeze", "torch.jit.optimize_for_inference")


@evaluates(ast.Call)
def _call(frame: Frame, node: ast.Call) -> Kind:
    """Return the kind of a call's result, following the call into project functions."""
    frame.calling = node
    callee = method_of_tensors(frame, node) or evaluate(frame, node.func)
    note_converted(frame, node, callee)
    if isinstance(node.func, ast.Attribute):
        note_sparse_method(frame, node.func.value, callee)
    args, keywords, unpacked = _arguments(frame, node)
    starred = bool(unpacked)
    note_hook(frame, node, args)
    if args:
        note_arguments(frame, node, callee, args)
    if isinstance(callee, k.Unknown) and isinstance(node.func, ast.Attribute):
        note_masks(frame, keywords)
        answer = unknown_method(frame, node.func, args)
        if answer is not None:
            return answer
        _note_inherited(frame, node, args, keywords, starred=starred)
    if starred and isinstance(callee, k.External) and torch_api.canonical(callee.name) == SEQUENTIAL:
        return k.Sequence(SEQUENTIAL, k.shallow(k.join_all([*args, *unpacked])))
    result = apply(frame, callee, args, keywords, node, starred=starred)
    if frame.facts_of_self:
        forget_by_call(frame, node, callee)
    if frame.interpreter.hooks:
        for hook, given in hooks_of(frame, node, args, result):
            result = join(result, k.without(apply(frame, hook, given, {}, None, starred=False), "none"))
    return result


def _note_inherited(
    frame: Frame, node: ast.Call, args: list[Kind], keywords: dict[str, Kind], *, starred: bool
) -> None:
    """Record a call to a method that neither the project nor torch defines, if a base class may define it."""
    assert isinstance(node.func, ast.Attribute)
    value, name = node.func.value, node.func.attr
    on_super = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super"
    owner = evaluate(frame, value) if on_super or isinstance(value, ast.Name) else UNKNOWN
    if isinstance(owner, k.Super) or (isinstance(owner, k.Instance) and never_had(frame, owner, name)):
        note_inherited(frame, node, owner, name, args, keywords, starred=starred)


def _arguments(frame: Frame, node: ast.Call) -> Arguments:
    """Evaluate the arguments. `*` and `**` arguments of unknown length come last, with one kind each."""
    args: list[Kind] = []
    keywords: dict[str, Kind] = {}
    unpacked: list[Kind] = []
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            inner = evaluate(frame, argument.value)
            if k.may_be_tensor(inner):
                frame.interpreter.unpacked.add(argument.value)
            if isinstance(inner, k.Sequence) and inner.items is not None and not unpacked:
                args += inner.items
            else:
                unpacked.append(element_of(inner))
        elif unpacked:
            unpacked.append(evaluate(frame, argument))
        else:
            args.append(evaluate(frame, argument))
    for keyword in node.keywords:
        kind = evaluate(frame, keyword.value)
        if keyword.arg is not None:
            keywords[keyword.arg] = kind
        elif isinstance(kind, k.Dictionary) and kind.certain and kind.home is None:
            keywords.update((str(key), value) for key, value in kind.certain)
        else:
            unpacked.append(UNKNOWN)
    return args, keywords, unpacked


def apply(
    frame: Frame, callee: Kind, args: list[Kind], keywords: dict[str, Kind], node: ast.Call | None, *, starred: bool
) -> Kind:
    """Return the kind of the result of calling `callee`. `node` is the call, if there is one."""
    if isinstance(callee, k.Unknown):
        return UNKNOWN
    if isinstance(callee, k.Function):
        merged = {**dict(callee.keywords), **keywords}
        given = [*callee.args, *args]
        if callee.function.decorators:
            _run_wrappers(frame, callee, given, merged, starred=starred)
            _note_static_object(frame, callee.function, node)
            most, own = kept_back(frame.interpreter, callee.function)
            bound = callee.receiver is not None
            given = given if most is None else given[: max(0, most - bound)]
            merged = {name: kind for name, kind in merged.items() if name not in own}
        return call_function(frame, callee, given, merged, starred=starred, node=node)
    if isinstance(callee, k.External):
        return _external(frame, callee.name, args, keywords, node, starred=starred)
    if isinstance(callee, k.Method):
        return _method_call(frame, callee, args, keywords, node, starred=starred)
    if isinstance(callee, k.Object):
        return _object_call(frame, callee, args, keywords, node, starred=starred)
    if isinstance(callee, k.Instance):
        return instance_call(frame, callee, args, keywords, node, starred=starred)
    if isinstance(callee, k.Class):
        return instantiate(frame, callee, args, keywords, node, starred=starred)
    if isinstance(callee, k.Partial):
        trace_backward(frame, callee)
        merged = {**dict(callee.keywords), **keywords}
        return apply(frame, callee.callee, [*callee.args, *args], merged, node, starred=starred)
    if isinstance(callee, k.Sequence) and callee.type == SEQUENTIAL:
        return _sequential(frame, callee, args, node)
    if isinstance(callee, k.Union):
        return _any_of(frame, callee, args, keywords, node, starred=starred)
    return UNKNOWN


def _run_wrappers(
    frame: Frame, callee: k.Function, args: list[Kind], keywords: dict[str, Kind], *, starred: bool
) -> None:
    """Interpret the wrappers that decorators put around a function, assuming that they pass on its arguments."""
    for wrapper in wrappers_of(frame.interpreter, callee.function):
        if wrapper is not frame.function and keeping_out(frame, callee.function) is None:
            maker = wrapper.parent
            if maker is not None and maker not in frame.interpreter.contexts:
                frame.interpreter.default_context(maker)  # it binds the variables that the wrapper closes over
            given = args if callee.receiver is None else [callee.receiver, *args]
            call_function(frame, k.Function(wrapper), given, keywords, starred=starred)


def _note_static_object(frame: Frame, function: FunctionInfo, node: ast.Call | None) -> None:
    """Emit a call to the `staticmethod` object that a decorator has been given instead of the function."""
    if node is None or frame.interpreter.watched(STATIC_OBJECT) is None or keeping_out(frame, function) is not None:
        return
    if calls_static_object(frame.interpreter, function):
        frame.emit(Call, node, extra=STATIC_OBJECT, callee=STATIC_OBJECT, receiver=None, args=(), result=UNKNOWN)


def _any_of(
    frame: Frame, callee: k.Union, args: list[Kind], keywords: dict[str, Kind], node: ast.Call | None, *, starred: bool
) -> Kind:
    """Return the result of a call that may have different callees. Events in each callee are uncertain.

    If rules watch every possible callee, as for an LSTM or a GRU, the events are certain, because one of them is
    called.
    """
    result: Kind = NOTHING
    alternatives, condition = _callable_alternatives(callee), frame.condition
    meant = [one for one in alternatives if starred or _may_be_meant(frame, one, args, keywords)]
    alternatives = meant or alternatives
    if len(alternatives) > 1 and node is not None and not all(_is_watched(frame, one) for one in alternatives):
        frame.condition = node.func
    for one in alternatives:
        result = join(result, apply(frame, one, args, keywords, node, starred=starred))
    frame.condition = condition
    return result


def _may_be_meant(frame: Frame, callee: Kind, args: list[Kind], keywords: dict[str, Kind]) -> bool:
    """Return whether the arguments fit a function or module of the project that is one of the possible callees."""
    interpreter = frame.interpreter
    if isinstance(callee, k.Instance) and interpreter.project.is_module_class(callee.cls) and not callee.below:
        method = interpreter.project.find_method(callee.cls, "forward")
        replaced = interpreter.project.find_method(callee.cls, "__call__") is not None
        return method is None or replaced or may_take(interpreter, method, args, keywords, bound=True)
    if not isinstance(callee, k.Function) or callee.function.decorators:
        return True
    given, named = [*callee.args, *args], {**dict(callee.keywords), **keywords}
    bound = callee.receiver is not None and interpreter.method_receiver(callee.function) is not None
    return may_take(interpreter, callee.function, given, named, bound=bound)


def _is_watched(frame: Frame, callee: Kind) -> bool:
    """Return whether a rule watches for calls to a callee outside the project."""
    if isinstance(callee, k.Partial):
        return _is_watched(frame, callee.callee)
    if isinstance(callee, k.Object):
        return frame.interpreter.watched(f"{callee.type}.__call__") is not None
    return isinstance(callee, k.External) and frame.interpreter.watched(callee.name) is not None


def _callable_alternatives(callee: k.Union) -> list[Kind]:
    """Return the possible callees of a value, without None and without a class that `self.act = act()` has replaced."""
    built = {one.cls for one in callee.alternatives if isinstance(one, k.Instance)}
    types = {one.type for one in callee.alternatives if isinstance(one, k.Object)}
    return [
        one
        for one in callee.alternatives
        if one != k.NONE
        and not (isinstance(one, k.Class) and one.cls in built)
        and not (isinstance(one, k.External) and torch_api.canonical(one.name) in types)
    ]


def _external(
    frame: Frame, name: str, args: list[Kind], keywords: dict[str, Kind], node: ast.Call | None, *, starred: bool
) -> Kind:
    """Call a function outside the project."""
    given = taken(frame, name, args)
    known = builtin_call(frame, name, given, keywords)
    if node is not None and not starred:
        known = _by_name(frame, name, args, node, known)
    result = external_call(name, given, keywords, starred=starred) if known is None else known
    result = made_sparse(name, None, result)
    _note_compiled(frame, name, args)
    if name == "builtins.isinstance" and len(args) == 2 and isinstance(args[1], k.External):
        name = f"{args[1].name}.__instancecheck__"
    note_call(frame, node, name, None, args, keywords, result, starred=starred)
    result = note_installed(frame, node, name, args, keywords, result, starred=starred)
    if name in _ORDERING and args and not starred:
        _note_ordering(frame, node, name, args[0] if len(args) == 1 else k.sequence("tuple", args), keywords)
    return _called_back(frame, name, given, keywords, result)


def _by_name(frame: Frame, name: str, args: list[Kind], node: ast.Call, known: Kind | None) -> Kind | None:
    """Return the result of `setattr` or `getattr` with a computed name."""
    if name == "builtins.setattr" and len(args) == 3:
        store_by_name(frame, args[0], name_of(node.args[1], args[1]), args[2])
    elif name == "builtins.getattr" and known == k.External(SOME_LAYER):
        return layer_by_default(frame, node.args[1]) or known
    elif name == "builtins.getattr" and known == UNKNOWN and len(args) >= 2 and args[2:] in ([], [k.NONE]):
        return join_all([named_member(frame, args[0], node.args[1], args[1]), *args[2:]])
    return known


def _note_ordering(frame: Frame, node: ast.Call | None, name: str, values: Kind, keywords: dict[str, Kind]) -> None:
    """Emit an event for sorting values, and call the key function with one of the values."""
    function, elements = keywords.get("key", k.NONE), element_of(values)
    key = elements if function == k.NONE else apply(frame, function, [elements], {}, None, starred=False)
    if node is not None:
        has_key = function != k.NONE
        frame.emit(Ordering, node, callee=name, values=values, elements=elements, key=key, has_key=has_key)


def _note_compiled(frame: Frame, name: str, args: list[Kind]) -> None:
    if name in _COMPILING and args:
        for one in args[0].members:
            frame.interpreter.compiled[one] = None
            frame.interpreter.note_effect("compile", one)


def _called_back(frame: Frame, name: str, args: list[Kind], keywords: dict[str, Kind], result: Kind) -> Kind:
    """Handle functions that take a function. `torch.compile(f)` is `f` itself, and others call their argument."""
    handed = callback_arguments(name, args, keywords)
    if handed is not None:
        given = apply(frame, args[0], *handed, None, starred=False)
        return result_with_callback(name, args, given, result)
    if name in _DISABLING:
        # If no function is given, the call returns the decorator. Otherwise, it returns a callable that Dynamo does not
        # trace into.
        return k.External(DISABLED if args and isinstance(args[0], (k.Function, k.Partial)) else name)
    if not args or not isinstance(args[0], (k.Function, k.Partial, k.Instance, k.Object, k.Sequence)):
        return result
    if name in _SCRIPTING and not isinstance(args[0], (k.Function, k.Partial)):
        return k.Object("torch.jit.ScriptModule")
    transform = torch_api.canonical(name)
    if transform in DERIVATIVES:
        return k.Partial(k.External(transform), (args[0],))
    return args[0] if name in _COMPILING or name in _HANDING_BACK or transform == VECTORISED else result


def _method_call(
    frame: Frame, callee: k.Method, args: list[Kind], keywords: dict[str, Kind], node: ast.Call | None, *, starred: bool
) -> Kind:
    """Call a method on a value that is not an instance of a project class."""
    receiver = callee.receiver
    if isinstance(receiver, k.Tensor):
        return tensor_method(frame, receiver, callee.name, args, keywords, node, starred=starred)
    if isinstance(receiver, (k.Sequence, k.Dictionary)) and callee.name in CHILDREN:
        return listed(callee.name, receiver.element if isinstance(receiver, k.Sequence) else receiver.value)
    if isinstance(receiver, (k.Sequence, k.Dictionary, k.Value)):
        if isinstance(receiver, k.Sequence) and callee.name == "sort":
            _note_ordering(frame, node, "list.sort", receiver, keywords)
        result = container_method(frame, receiver, callee.name, args, node)
        note_call(frame, node, f"{receiver.type}.{callee.name}", receiver, args, keywords, result, starred=starred)
        return result
    if isinstance(receiver, (k.Object, k.Instance)):
        return object_method(frame, receiver, callee.name, args, keywords, node, starred=starred)
    return UNKNOWN


def _object_call(
    frame: Frame, callee: k.Object, args: list[Kind], keywords: dict[str, Kind], node: ast.Call | None, *, starred: bool
) -> Kind:
    """Call a torch layer or another callable object."""
    cls = frame.interpreter.project.api.torch_class(callee.type)
    entry = cls.call if cls is not None else None
    result = (
        layer_call(callee.type, args) if entry is None else torch_call(entry, callee, args, keywords, starred=starred)
    )
    if callee.type == "torch.nn.Identity" and args and not isinstance(args[0], k.Unknown) and not starred:
        result = args[0]
    name = f"{callee.type}.__call__"
    note_call(frame, node, name, callee, args, keywords, result, starred=starred)
    return note_installed(frame, node, name, args, keywords, result, starred=starred, receiver=callee)


def _sequential(frame: Frame, callee: k.Sequence, args: list[Kind], node: ast.Call | None) -> Kind:
    """Pass the input through the modules in an `nn.Sequential`, one after another.

    Events in a torch layer belong to the call, and events in a project module belong to that module. If the number of
    modules in the `nn.Sequential` is unknown, they are called in a loop.
    """
    modules = callee.items if callee.items is not None else (callee.element,)
    current = args[0] if args else UNKNOWN
    for index, module in enumerate(modules):
        given = args if index == 0 else [current]
        if isinstance(module, k.Unknown):
            current = k.Tensor() if k.may_be_tensor(current) else UNKNOWN
            continue
        is_layer = all(isinstance(one, k.Object) for one in module.members)
        repeated = callee.items is None and not is_layer
        frame.loop += repeated
        current = apply(frame, module, given, {}, node if is_layer or index == 0 else None, starred=False)
        frame.loop -= repeated
    return current
