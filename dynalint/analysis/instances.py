"""Calls to project classes and to their instances."""

from __future__ import annotations

import ast
from dataclasses import replace

from dynalint.analysis import kinds as k
from dynalint.analysis.annotations import named_tuple
from dynalint.analysis.externals import SEQUENTIAL
from dynalint.analysis.frame import Frame
from dynalint.analysis.functions import call_function, new_instance
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.kinds import NOTHING, UNKNOWN, Kind, join
from dynalint.analysis.noting import note_call
from dynalint.analysis.signatures import declared_kind, has_decorator, may_take
from dynalint.analysis.torch_calls import torch_call

# Decorators of methods that check or change the arguments of a pydantic model's constructor.
_VALIDATORS = frozenset({"field_validator", "model_validator", "root_validator", "validator"})


def instance_call(
    frame: Frame,
    callee: k.Instance,
    args: list[Kind],
    keywords: dict[str, Kind],
    node: ast.Call | None,
    *,
    starred: bool,
) -> Kind:
    """Call an instance of a project class, which runs a module's `forward` or the class's `__call__`."""
    project, methods = frame.interpreter.project, frame.interpreter.heirs.methods
    name = "forward" if project.is_module_class(callee.cls) else "__call__"
    own = methods(frame, callee, "__call__")
    reached = own if own and not callee.below else dict.fromkeys([*own, *methods(frame, callee, name)])
    if reached:
        result: Kind = NOTHING
        meant = [one for one in reached if starred or may_take(frame.interpreter, one[0], args, keywords, bound=True)]
        for method, receiver in meant or reached:
            function = k.Function(method, receiver)
            result = join(result, call_function(frame, function, args, keywords, starred=starred, node=node))
        for base in project.lineage(callee.cls)[1]:
            note_call(frame, node, f"{base}.__call__", callee, args, keywords, result, starred=starred)
        return result
    for base in project.lineage(callee.cls)[1]:
        cls = project.api.torch_class(base)
        if cls is not None and cls.name != "torch.nn.Module" and cls.call is not None:
            result = torch_call(cls.call, callee, args, keywords, starred=starred)
            note_call(frame, node, f"{cls.name}.__call__", callee, args, keywords, result, starred=starred)
            return result
        if frame.interpreter.watched(f"{base}.__call__") is not None:
            note_call(frame, node, f"{base}.__call__", k.Object(base), args, keywords, UNKNOWN, starred=starred)
            return UNKNOWN
        if base == SEQUENTIAL:
            return k.Tensor() if args and k.may_be_tensor(args[0]) else UNKNOWN
    return UNKNOWN


def instantiate(
    frame: Frame, callee: k.Class, args: list[Kind], keywords: dict[str, Kind], node: ast.Call | None, *, starred: bool
) -> Kind:
    """Instantiate a class, passing the arguments to its constructor."""
    project = frame.interpreter.project
    instance = new_instance(frame, callee.cls)
    project.note_built(callee.cls)
    maker = project.find_method(callee.cls, "__new__")
    if maker is not None:
        call_function(frame, k.Function(maker, callee), args, keywords, starred=starred)
    constructor = None if _is_dataclass(callee) else project.find_method(callee.cls, "__init__")
    if constructor is not None:
        call_function(frame, k.Function(constructor, instance), args, keywords, starred=starred)
    bases = project.lineage(callee.cls)[1]
    for base in bases:
        if constructor is None:
            note_call(frame, node, f"{base}.__init__", k.Object(base), args, keywords, instance, starred=starred)
    if constructor is None and any(base in ("typing.NamedTuple", "builtins.tuple") for base in bases):
        declared = named_tuple(frame.interpreter, callee.cls)
        if declared is not None and len(args) <= len(declared.fields):
            given = {**dict(zip(declared.fields, args, strict=False)), **keywords}
            return _made_tuple(frame, callee, declared, given, starred=starred)
    elif constructor is None and _is_record(callee):
        given = {**dict(zip(callee.cls.annotated, args, strict=False)), **keywords}
        left_out = {} if starred else {name: value for name, value in callee.cls.body.items() if name not in given}
        for name in callee.cls.annotated:
            if name in left_out:
                given[name] = frame.interpreter.scopes.in_scope(left_out[name], callee.cls.module, callee.cls.parent)
        for name, kind in given.items():
            field = callee.cls.annotated.get(name) if isinstance(kind, k.Unknown) else None
            held = kind if field is None else declared_kind(frame.interpreter, field, callee.cls.module)
            frame.interpreter.attributes.store(callee.cls, name, held, frame)
    _finish(frame, instance, keywords, constructor)
    if any(base.startswith("pydantic") for base in bases):
        _validate(frame, instance, keywords)
    return instance


def _finish(frame: Frame, instance: k.Instance, given: dict[str, Kind], constructor: FunctionInfo | None) -> None:
    """Call the `__post_init__` that a constructor calls at the end, if a decorator of a dataclass generates it."""
    project = frame.interpreter.project
    method = project.find_method(instance.cls, "__post_init__")
    if method is None or constructor is not None:
        return
    decorators = [ast.unparse(one) for cls in project.mro(instance.cls) for one in cls.node.decorator_list]
    if any("dataclass" in one and "init=False" not in one for one in decorators):
        names = [argument.arg for argument in method.node.args.args[1:]]
        passed = {name: given[name] for name in names if name in given}
        call_function(frame, k.Function(method, instance), [], passed, starred=True)


def _validate(frame: Frame, instance: k.Instance, given: dict[str, Kind]) -> None:
    """Interpret the validators that the constructor of a pydantic model calls."""
    validators: dict[str, FunctionInfo] = {}
    for cls in reversed(frame.interpreter.project.mro(instance.cls)):
        validators.update((name, one) for name, one in cls.methods.items() if one.decorators & _VALIDATORS)
    for method in validators.values():
        of_class = has_decorator(method, "classmethod") or not has_decorator(method, "model_validator")
        receiver: Kind = k.Class(instance.cls) if of_class else instance
        value = k.join_all([given.get(name, NOTHING) for name in _validated(method)])
        args = [] if value is NOTHING else [value]
        call_function(frame, k.Function(method, receiver), args, {}, starred=True)


def _validated(method: FunctionInfo) -> list[str]:
    """Return the fields that a validator checks. They are the arguments of its decorator."""
    decorators = [one for one in getattr(method.node, "decorator_list", ()) if isinstance(one, ast.Call)]
    arguments = (argument for decorator in decorators for argument in decorator.args)
    return [str(one.value) for one in arguments if isinstance(one, ast.Constant)]


def _made_tuple(
    frame: Frame, callee: k.Class, declared: k.Sequence, given: dict[str, Kind], *, starred: bool
) -> k.Sequence:
    """Instantiate a named tuple. Omitted fields have their default values, and unknown fields their annotated kinds."""
    items: list[Kind] = []
    for name, kind in zip(declared.fields, declared.items or (), strict=True):
        default = None if starred else callee.cls.body.get(name)
        if name not in given and default is not None:
            given[name] = frame.interpreter.scopes.in_scope(default, callee.cls.module, callee.cls.parent)
        item = given.get(name, UNKNOWN)
        items.append(kind if isinstance(item, k.Unknown) else item)
    return replace(declared, element=k.join_all(items), items=tuple(items))


def _is_dataclass(callee: k.Class) -> bool:
    """Return whether a decorator generates a constructor, which replaces any inherited one."""
    names = [ast.unparse(decorator) for decorator in callee.cls.node.decorator_list]
    return "__init__" not in callee.cls.methods and any("dataclass" in name for name in names)


def _is_record(callee: k.Class) -> bool:
    """Return whether the constructor of a class is generated from its annotated fields."""
    decorators = callee.cls.node.decorator_list
    return bool(callee.cls.annotated) and (bool(decorators) or "__init__" not in callee.cls.methods)
