"""The kind of `value.name`, for each kind of value."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator
from dataclasses import replace

from dynalint.analysis import kinds as k
from dynalint.analysis.delegation import delegated
from dynalint.analysis.dtypes import dtype_constant
from dynalint.analysis.externals import named_outside
from dynalint.analysis.frame import Frame
from dynalint.analysis.functions import call_function
from dynalint.analysis.index import ClassInfo, FunctionInfo
from dynalint.analysis.kinds import NOTHING, UNKNOWN, Kind, join, join_all
from dynalint.analysis.named_attributes import HOLE, fits
from dynalint.analysis.signatures import declared_attribute, declared_kind, has_decorator
from dynalint.analysis.torch_calls import OF_DENSE_TENSORS, convert

# Layers whose weight is a matrix.
_WEIGHTS_OF_ROWS = frozenset({"torch.nn.Embedding", "torch.nn.EmbeddingBag", "torch.nn.Linear"})
_CONTEXT = k.Object("torch.autograd.Function")
_ANY_MODULE = k.External("torch.nn.Module")
_PLAIN = {"none": type(None), **{one.__name__: one for one in (bool, int, float, complex, str, tuple, list, set, dict)}}


# Attributes of dtypes and devices that are not methods.
_OF_SETTINGS: dict[str, Kind] = {
    **dict.fromkeys(("is_complex", "is_floating_point", "is_signed"), k.BOOL),
    "index": k.join(k.INT, k.NONE),
    "itemsize": k.INT,
    "type": k.STR,
}


def member(frame: Frame, owner: Kind, name: str) -> Kind:
    """Return the kind of an attribute, ignoring alternatives that lack it, such as None."""
    if isinstance(owner, k.Union):
        return _of_union(frame, owner, name)
    if isinstance(owner, k.Instance):
        return _of_any_below(frame, owner, name) if owner.below else _of_instance(frame, owner, name)
    if isinstance(owner, k.Tensor):
        return _of_tensor(frame, owner, name)
    if isinstance(owner, k.External):
        return _of_external(frame, owner, name)
    if isinstance(owner, k.Module):
        return _of_module(frame, owner, name)
    if isinstance(owner, k.Class):
        return _of_class(frame, owner, name)
    if isinstance(owner, k.Super):
        return _of_super(frame, owner, name)
    if isinstance(owner, k.Object):
        return _of_object(frame, owner, name)
    if isinstance(owner, k.Sequence) and name in owner.fields and owner.items is not None:
        return owner.items[owner.fields.index(name)]
    if isinstance(owner, k.Sequence) and owner.cls is not None:
        method = frame.interpreter.project.find_method(owner.cls, name)
        return _of_plain(owner, name) if method is None else bind(frame, method, owner)
    if isinstance(owner, (k.Sequence, k.Dictionary, k.Value)):
        return _of_plain(owner, name)
    return UNKNOWN


def _of_plain(owner: k.Sequence | k.Dictionary | k.Value, name: str) -> Kind:
    """Return an attribute of a plain Python value, a dtype or a device. It is nearly always a method."""
    if owner.type in ("dtype", "device"):
        return _OF_SETTINGS.get(name) or k.Method(owner, name)
    plain = _PLAIN.get(owner.type)
    # A name that the type does not have also counts as a method, because rules look for methods that only tensors have.
    return UNKNOWN if hasattr(plain, name) and not callable(getattr(plain, name)) else k.Method(owner, name)


def stored(frame: Frame, owner: k.Instance, name: str) -> Kind:
    """Return the kind of an attribute that methods store on instances, or `NOTHING`."""
    kind = frame.interpreter.attributes.read(owner.cls, name, frame)
    if kind is NOTHING:
        return kind
    kind = join(_as_declared(frame, owner, name, kind), _left(frame, owner, name))
    if isinstance(kind, (k.Dictionary, k.Sequence)):
        for cls in frame.interpreter.project.mro(owner.cls):
            kind = frame.interpreter.scopes.filled(kind, cls, name)
    return kind if owner.made else _held(kind, name)


def _left(frame: Frame, owner: k.Instance, name: str) -> Kind:
    """Return the class constant (None or a flag) that an attribute may still have if no constructor sets it."""
    classes = frame.interpreter.project.mro(owner.cls)
    value = None
    for cls in classes:
        if name in cls.body:
            value = cls.body[name]
            break
    if not isinstance(value, ast.Constant) or not (value.value is None or isinstance(value.value, bool)):
        return NOTHING
    stored = any(function.name == "__init__" for cls in classes for function, _ in cls.stores.get(name, ()))
    return NOTHING if stored else k.constant(value.value)


def _of_union(frame: Frame, owner: k.Union, name: str) -> Kind:
    """Return an attribute of a union. If many alternatives have a method, it is treated as a single method."""
    having: dict[FunctionInfo, list[Kind]] = {}
    lacking: list[k.Instance] = []
    others: list[Kind] = []
    for one in owner.alternatives:
        if not isinstance(one, k.Instance):
            others.append(one)
        elif methods := frame.interpreter.heirs.methods(frame, one, name):
            for method, receiver in methods:
                having.setdefault(method, []).append(receiver)
        else:
            lacking.append(one)
    # Reading an attribute that a dict or a number does not have raises, so those alternatives do not matter.
    having_it = [one for one in others if not _lacks(one, name)]
    all_lack = not having_it and len(others) == len(owner.alternatives)
    found = [member(frame, one, name) for one in (others if all_lack else having_it) if one != k.NONE]
    bound = {method: join_all(some) for method, some in having.items()}
    found += [bind(frame, method, receiver) for method, receiver in bound.items()]
    if lacking and bound:
        # An abstract base class leaves the method to its subclasses.
        above = {cls for receiver in bound.values() for one in receiver.members for cls in _above(one)}
        lacking = [one for one in lacking if one.cls not in above]
    held = [(one, member(frame, one, name)) for one in lacking]
    stored = [kind for one, kind in held if not (isinstance(kind, k.Unknown) and never_had(frame, one, name))]
    return join_all([*found, *(stored if found or stored else (kind for _, kind in held))])


def never_had(frame: Frame, owner: k.Instance, name: str) -> bool:
    """Return whether nothing suggests that instances of a class have an attribute with this name."""
    project = frame.interpreter.project
    if project.find_method(owner.cls, "__getattr__") is not None or any(name in cls.body for cls in owner.cls.above):
        return False
    return frame.interpreter.attributes.read(owner.cls, name, frame) is NOTHING


def _lacks(kind: Kind, name: str) -> bool:
    """Return whether a plain Python value lacks an attribute."""
    if not isinstance(kind, (k.Value, k.Sequence, k.Dictionary)):
        return False
    plain = _PLAIN.get(kind.type)
    return plain is not None and not hasattr(plain, name) and name not in getattr(kind, "fields", ())


def _above(kind: Kind) -> list[ClassInfo]:
    return kind.cls.above if isinstance(kind, k.Instance) else []


def _of_any_below(frame: Frame, owner: k.Instance, name: str) -> Kind:
    """Return an attribute of an instance of a class or any subclass without querying each subclass."""
    methods = frame.interpreter.heirs.methods(frame, owner, name)
    if methods:
        return join_all([bind(frame, method, receiver) for method, receiver in methods])
    own = _of_instance(frame, k.Instance(owner.cls), name)
    below = _held(frame.interpreter.heirs.read(owner.cls, name, frame), name)
    return own if below is NOTHING else below if isinstance(own, k.Unknown) else join(own, below)


def _of_instance(frame: Frame, owner: k.Instance, name: str) -> Kind:
    project = frame.interpreter.project
    method = project.find_method(owner.cls, name)
    if method is not None:
        return bind(frame, method, owner)
    kind = stored(frame, owner, name)
    if kind is not NOTHING:
        return _held(declared_attribute(frame.interpreter, owner.cls, name), name) if kind == UNKNOWN else kind
    for cls in project.mro(owner.cls):
        patterns = [pattern for pattern in cls.attributes if HOLE in pattern and fits(name, pattern)]
        if patterns:
            return join_all([stored(frame, owner, pattern) for pattern in patterns])
        if name in cls.body:
            value = frame.interpreter.scopes.filled(_field(frame, cls, name), cls, name)
            if not _is_choice(value):
                return k.with_home(value, k.Home("class", name)) if k.is_mutable(value) else value
            below = list(_chosen_below(frame, owner.cls, name))
            return join_all([*([] if below and value == _ANY_MODULE else [value]), *below])
        if name in cls.classes:
            return k.Class(cls.classes[name])
    if name == "__class__":
        return k.Class(owner.cls)
    if name == "apply" and "torch.autograd.Function" in project.lineage(owner.cls)[1]:
        return _differentiable(frame, k.Class(owner.cls))
    kind = _inherited(frame, owner.cls, owner, name)
    if isinstance(kind, k.Unknown) and project.is_module_class(owner.cls):
        kind = _of_torch_class(frame, owner, "torch.nn.Module", name)
    if isinstance(kind, k.Unknown):
        kind = _declared(frame, owner, name)
    return delegated(frame, owner, name, member) if isinstance(kind, k.Unknown) else kind


def _declared(frame: Frame, owner: k.Instance, name: str) -> Kind:
    """Return what an annotation gives, or else what subclasses choose. An abstract class leaves the choice to them."""
    kind = _held(declared_attribute(frame.interpreter, owner.cls, name), name)
    below = list(_chosen_below(frame, owner.cls, name)) if isinstance(kind, k.Unknown) else []
    return join_all(below) if below else kind


def _is_choice(kind: Kind) -> bool:
    """Return whether a class attribute is a class, a function or None, which suggests that subclasses replace it."""
    return kind == k.NONE or isinstance(kind, (k.Class, k.Function, k.External))


def _chosen_below(frame: Frame, cls: ClassInfo, name: str) -> Iterator[Kind]:
    """Yield the classes and functions that subclasses, which `self` may be an instance of, assign to `name`."""
    _ = frame.interpreter.project.all_classes
    for one in cls.subclasses:
        if name in one.body:
            kind = frame.interpreter.scopes.in_scope(one.body[name], one.module, one.parent)
            if _is_choice(kind) and kind != k.NONE:
                yield kind


def _inherited(frame: Frame, cls: ClassInfo, owner: Kind, name: str) -> Kind:
    """Return a member that a class inherits from one outside the project."""
    interpreter = frame.interpreter
    for base in interpreter.project.lineage(cls)[1]:
        if interpreter.project.api.torch_class(base) is not None:
            kind = _of_torch_class(frame, owner, base, name)
            if not isinstance(kind, k.Unknown):
                return kind
        elif interpreter.watched(f"{base}.{name}") is not None:
            return k.Method(k.Object(base), name)
    return UNKNOWN


def _as_declared(frame: Frame, owner: k.Instance, name: str, kind: Kind) -> Kind:
    """Combine a stored tensor, or a field that has only ever been None, with its declaration in the class."""
    tensor = k.only_tensor(kind)
    if kind != k.NONE and (tensor is None or tensor.dtype is not None):
        return kind
    for cls in frame.interpreter.project.mro(owner.cls):
        if name in cls.body:
            declared = _field(frame, cls, name)
            other = k.only_tensor(declared)
            if kind == k.NONE:
                return kind if isinstance(declared, k.Unknown) else join(declared, kind)
            if tensor is not None and other is not None and other.dtype is not None:
                known = replace(tensor, dtype=other.dtype)
                return join(known, k.NONE) if k.NONE in kind.members else known
            break
    return kind


def _field(frame: Frame, cls: ClassInfo, name: str) -> Kind:
    """Return an attribute assigned in the class body. If it is annotated, the value is only a default."""
    value = frame.interpreter.scopes.in_scope(cls.body[name], cls.module, cls.parent)
    annotation = cls.annotated.get(name)
    if annotation is None:
        return value
    declared = declared_kind(frame.interpreter, annotation, cls.module)
    if isinstance(declared, k.Unknown) or isinstance(value, k.Unknown):
        return k.widened(value if isinstance(declared, k.Unknown) else declared)
    return k.widened(join(declared, value))


def _held(kind: Kind, name: str) -> Kind:
    """Mark a value as stored by an earlier call by recording a container's home or a tensor's attribute name."""
    if isinstance(kind, k.Unknown):
        return UNKNOWN  # it is not a parameter of this function
    if isinstance(kind, k.Tensor):
        if kind.name == name:
            return kind
        return replace(kind, origin=kind.origin or "attribute", name=name)
    if isinstance(kind, k.Union):
        members = tuple([_held(one, name) for one in kind.alternatives])
        return kind if all(map(operator.is_, members, kind.alternatives)) else k.Union(members)
    if k.is_mutable(kind):
        return k.with_home(kind, k.Home("attribute", name))
    return kind


def bind(frame: Frame, method: FunctionInfo, receiver: Kind) -> Kind:
    """Return a method bound to an instance, or the value of a property."""
    if not method.decorators:
        return k.Function(method, receiver)
    if has_decorator(method, "property") or has_decorator(method, "cached_property"):
        return call_function(frame, k.Function(method, receiver), [], {}, starred=False)
    if has_decorator(method, "staticmethod"):
        return k.Function(method)
    if has_decorator(method, "classmethod"):
        classes = [_class_of(one) for one in receiver.members]
        return k.Function(method, join_all(classes))
    return k.Function(method, receiver)


def _class_of(kind: Kind) -> Kind:
    cls = kind.cls if isinstance(kind, (k.Instance, k.Sequence)) else None
    return kind if cls is None else k.Class(cls)


def _of_tensor(frame: Frame, owner: k.Tensor, name: str) -> Kind:
    api = frame.interpreter.project.api
    attribute = api.attribute(name)
    if attribute is not None:
        if name in ("data", "real"):
            return k.Tensor(owner.dtype, owner.rank, array=owner.array)
        if name == "dtype" and owner.dtype == "bool" and not owner.array:
            return dtype_constant("torch.bool")
        if frame.interpreter.exact and not owner.sparse and name in OF_DENSE_TENSORS:
            return OF_DENSE_TENSORS[name]
        kind = convert(attribute, owner.dtype)
        # This is None for a tensor without a gradient, and the samples only contain tensors without gradients.
        return UNKNOWN if kind == k.NONE else kind
    # Only kernels know how many times a tensor has been changed.
    return k.Value("int", k.MISSING, "data") if name == "_version" else k.Method(owner, name)


def _of_external(frame: Frame, owner: k.External, name: str) -> Kind:
    dotted = f"{owner.name}.{name}"
    module = frame.interpreter.project.find_module(dotted)
    return named_outside(dotted) if module is None else k.Module(module)


def _of_module(frame: Frame, owner: k.Module, name: str) -> Kind:
    module, interpreter = owner.module, frame.interpreter
    if name in module.bindings:
        return interpreter.scopes.global_kind(module, name)
    submodule = interpreter.project.find_module(f"{module.name}.{name}") if module.package else None
    return interpreter.scopes.global_kind(module, name) if submodule is None else k.Module(submodule)


def _of_class(frame: Frame, owner: k.Class, name: str) -> Kind:
    interpreter, project = frame.interpreter, frame.interpreter.project
    method = project.find_method(owner.cls, name)
    if method is not None:
        return k.Function(method, owner) if has_decorator(method, "classmethod") else k.Function(method)
    for cls in project.mro(owner.cls):
        if name in cls.body:
            if any(base.startswith("enum.") for base in project.lineage(owner.cls)[1]):
                return k.Instance(owner.cls)
            value = interpreter.scopes.in_scope(cls.body[name], cls.module, cls.parent)
            value = interpreter.scopes.filled(value, cls, name)
            return k.with_home(value, k.Home("class", name)) if k.is_mutable(value) else value
        if name in cls.classes:
            return k.Class(cls.classes[name])
    if name == "apply" and "torch.autograd.Function" in project.lineage(owner.cls)[1]:
        return _differentiable(frame, owner)
    if name in ("__name__", "__qualname__", "__module__"):
        return k.STR
    bases = (base for base in project.lineage(owner.cls)[1] if interpreter.watched(f"{base}.{name}") is not None)
    return next((k.Method(k.Object(base), name) for base in bases if project.api.torch_class(base) is None), UNKNOWN)


def _differentiable(frame: Frame, owner: k.Class) -> Kind:
    """Return the method that runs when `apply` of a `torch.autograd.Function` is called."""
    forward = frame.interpreter.project.find_method(owner.cls, "forward")
    return UNKNOWN if forward is None else k.Partial(k.Function(forward, owner), (_CONTEXT,))


def trace_backward(frame: Frame, applied: k.Partial) -> None:
    """Interpret the `backward` of an autograd function that is applied. Dynamo traces it together with `forward`."""
    function = applied.callee
    if applied.args[:1] == (_CONTEXT,) and isinstance(function, k.Function) and isinstance(function.receiver, k.Class):
        backward = frame.interpreter.project.find_method(function.receiver.cls, "backward")
        if backward is not None:
            call_function(frame, k.Function(backward), [_CONTEXT, k.TENSOR], {}, starred=True)


def _of_super(frame: Frame, owner: k.Super, name: str) -> Kind:
    project = frame.interpreter.project
    receiver = owner.receiver
    cls = receiver.cls if isinstance(receiver, (k.Instance, k.Class)) else owner.cls
    method = project.find_method(cls, name, after=owner.cls)
    beside: list[Kind] = []  # methods of classes that are only beside this one among the bases of a subclass
    for one in frame.env.get(frame.self_name or "", UNKNOWN).members:
        if isinstance(one, k.Instance) and one.cls is not cls and owner.cls in project.mro(one.cls):
            found = project.find_method(one.cls, name, after=owner.cls)
            beside += [bind(frame, found, one)] if found is not None and found is not method else []
    if beside:
        return k.join_all(beside)
    if method is not None:
        return bind(frame, method, receiver)
    return _inherited(frame, owner.cls, receiver, name)


def _of_object(frame: Frame, owner: k.Object, name: str) -> Kind:
    if owner == _CONTEXT and name in ("saved_tensors", "saved_variables"):
        return k.Sequence("tuple", k.TENSOR)
    if frame.interpreter.project.api.torch_class(owner.type) is not None:
        return _of_torch_class(frame, owner, owner.type, name)
    return k.Method(owner, name)


def _of_torch_class(frame: Frame, owner: Kind, type_: str, name: str) -> Kind:
    """Return the kind of a torch object's attribute or method."""
    cls = frame.interpreter.project.api.torch_class(type_)
    assert cls is not None
    attribute = cls.attribute(name)
    if attribute is not None:
        kind = convert(attribute, None)
        if isinstance(kind, k.Tensor) and cls.is_module:
            rank = 2 if name == "weight" and type_ in _WEIGHTS_OF_ROWS else kind.rank
            return replace(kind, origin=kind.origin or "parameter", name=name, rank=rank)
        return kind
    if cls.method(name) is not None or frame.interpreter.watched(f"{type_}.{name}") is not None:
        return k.Method(owner, name)
    return UNKNOWN
