"""Stores, which are the bindings made by assignments and the state that they change."""

from __future__ import annotations

import ast
from dataclasses import replace

from dynalint.analysis import kinds as k
from dynalint.analysis.dispatch import evaluate
from dynalint.analysis.dunders import call_special, spread
from dynalint.analysis.elements import element_of
from dynalint.analysis.events import ContainerChange, Event, InplaceChange, ItemWrite, StateChange, Write
from dynalint.analysis.facts import forget_attribute, forget_name
from dynalint.analysis.frame import Frame
from dynalint.analysis.index import ClassInfo
from dynalint.analysis.kinds import UNKNOWN, Home, Kind, join, widened
from dynalint.analysis.signatures import has_decorator
from dynalint.analysis.subscripts import note_index, taken_apart

FUNCTION_VARIABLE = "torch.autograd.Function.*"
APPLY = "torch.autograd.Function.apply"
"""The name that a rule watches to find reads of variables in the class body of an autograd function."""
# Attributes of the old value that the new value can use without depending on the old value's contents.
_PLACEMENT = frozenset({"device", "dtype"})
_DICTS = frozenset({"dict", "defaultdict", "OrderedDict", "UserDict"})

_OPERATORS = {
    ast.Add: "iadd",
    ast.Sub: "isub",
    ast.Mult: "imul",
    ast.Div: "itruediv",
    ast.FloorDiv: "ifloordiv",
    ast.Mod: "imod",
    ast.Pow: "ipow",
    ast.MatMult: "imatmul",
    ast.BitAnd: "iand",
    ast.BitOr: "ior",
    ast.BitXor: "ixor",
    ast.LShift: "ilshift",
    ast.RShift: "irshift",
}


def bind_target(frame: Frame, target: ast.expr, kind: Kind, value: ast.expr | None) -> None:
    """Bind the target of an assignment or loop. `value` is the assigned expression, if there is one."""
    if isinstance(target, ast.Name):
        if target.id in frame.globals:
            _change_global(frame, target, kind, value)
        else:
            frame.env[target.id] = frame.shown(kind) if isinstance(kind, k.Unknown) else kind
            forget_name(frame, target.id)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(frame, target, kind, value)
    elif isinstance(target, ast.Attribute):
        _store_attribute(frame, target, kind, value)
    elif isinstance(target, ast.Subscript):
        _store_item(frame, target, kind)
    elif isinstance(target, ast.Starred):
        bind_target(frame, target.value, k.Sequence("list", kind), None)


def _unpack(frame: Frame, target: ast.Tuple | ast.List, kind: Kind, value: ast.expr | None) -> None:
    kind = spread(frame, k.present(kind))
    items = kind.items if isinstance(kind, k.Sequence) else None
    starred = any(isinstance(element, ast.Starred) for element in target.elts)
    values = value.elts if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) else None
    for index, element in enumerate(target.elts):
        if items is not None and len(items) == len(target.elts) and not starred:
            part = items[index]
        else:
            part = element_of(kind)
        bind_target(frame, element, part, values[index] if values else None)
    if isinstance(kind, k.Sequence) and kind.type == "torch.Size" and not starred:
        _note_rank(frame, value, len(target.elts))


def _note_rank(frame: Frame, shape: ast.expr | None, rank: int) -> None:
    """Record the rank of a tensor whose shape is unpacked, as in `batch, channels = x.shape`."""
    method = shape.func if isinstance(shape, ast.Call) and not (shape.args or shape.keywords) else shape
    owner = method.value if isinstance(method, ast.Attribute) and method.attr in ("shape", "size") else None
    tensor = frame.env.get(owner.id) if isinstance(owner, ast.Name) else None
    if isinstance(owner, ast.Name) and isinstance(tensor, k.Tensor) and tensor.rank is None:
        frame.env[owner.id] = replace(tensor, rank=rank)


def rebind(frame: Frame, node: ast.expr, kind: Kind) -> None:
    """Update the variable or attribute that holds a container after an in-place change."""
    if isinstance(node, ast.Name):
        if node.id in frame.env:
            frame.env[node.id] = kind
        return
    name = frame.self_attribute(node)
    if name is not None:
        key = f"{frame.self_name}.{name}"
        if key in frame.env:
            frame.env[key] = kind
        if isinstance(frame.receiver, k.Instance):
            frame.interpreter.attributes.store(frame.receiver.cls, name, _homeless(kind), frame)


def _homeless(kind: Kind) -> Kind:
    if isinstance(kind, k.Sequence):
        # Nobody appends to one of these.
        items = kind.items if kind.type == "torch.nn.Sequential" or kind.fields else None
        return replace(kind, items=items, home=None)
    if isinstance(kind, k.Dictionary):
        return replace(kind, home=None)
    return kind


def _change_global(frame: Frame, target: ast.Name, kind: Kind, value: ast.expr | None) -> None:
    old = frame.env.get(target.id, frame.interpreter.scopes.lookup(frame, target.id))
    home = Home("global" if frame.globals[target.id] == "global" else "closure", target.id)
    reads_old = value is not None and _reads(value, target)
    _emit_state(frame, home, old, kind, reads_old=reads_old, fresh=target.id in frame.env)
    frame.env[target.id] = kind


def _emit_state(frame: Frame, home: Home, old: Kind, new: Kind, *, reads_old: bool, fresh: bool) -> None:
    if frame.statement is None or isinstance(new, k.Unknown):
        return
    frame.emit(
        StateChange,
        frame.statement,
        extra=home,
        home=home,
        old=old,
        new=new,
        reads_old=reads_old,
        fresh=fresh,
    )


def _reads(value: ast.AST, target: ast.expr) -> bool:
    """Return whether an expression reads the assignment's target for more than its device or dtype."""
    if isinstance(value, ast.Attribute) and value.attr in _PLACEMENT:
        return False
    return _same_place(value, target) or any(_reads(child, target) for child in ast.iter_child_nodes(value))


def _same_place(node: ast.AST, target: ast.AST) -> bool:
    """Return whether two nodes are the same variable, or the same chain of attributes of a variable."""
    if isinstance(node, ast.Attribute) and isinstance(target, ast.Attribute):
        return node.attr == target.attr and _same_place(node.value, target.value)
    return isinstance(node, ast.Name) and isinstance(target, ast.Name) and node.id == target.id


def _store_attribute(frame: Frame, target: ast.Attribute, kind: Kind, value: ast.expr | None) -> None:
    # A constructor creates state rather than changing it, so what it reads does not matter.
    reads_old = value is not None and _changes_state(frame) and _reads(value, target)
    _write_attribute(frame, target, kind, reads_old=reads_old)


def _write_attribute(frame: Frame, target: ast.Attribute, kind: Kind, *, reads_old: bool) -> None:
    """Assign to `owner.name`, where the owner is `self`, a class, or an object stored in `self` or a global."""
    if target.attr == "forward" and _is_own_module(frame, target.value):
        note_forward(frame, kind)
    name = frame.self_attribute(target)
    if name is not None and isinstance(frame.receiver, k.Instance):
        key = f"{frame.self_name}.{name}"
        if _changes_state(frame):
            fresh = key in frame.env
            old = frame.env.get(key)
            if old is None:
                old = frame.interpreter.attributes.read(frame.receiver.cls, name, frame)
            home = Home("attribute", name)
            _emit_state(frame, home, old, kind, reads_old=reads_old, fresh=fresh)
        frame.interpreter.attributes.store(frame.receiver.cls, name, _homeless(kind), frame)
        frame.env[key] = kind
        forget_attribute(frame, name)
        return
    owner = evaluate(frame, target.value)
    note_attribute(frame, Write, target, owner, value=kind)
    if isinstance(owner, k.Class):
        old = (
            frame.interpreter.scopes.in_scope(owner.cls.body[target.attr], owner.cls.module, None)
            if target.attr in owner.cls.body
            else UNKNOWN
        )
        home = Home("class", target.attr)
        _emit_state(frame, home, widened(old), kind, reads_old=reads_old, fresh=False)
        return
    instances = [one for one in owner.members if isinstance(one, k.Instance)]
    held = held_by(frame, target.value) if instances else None
    if held is not None:
        old = k.join_all([frame.interpreter.attributes.read(one.cls, target.attr, frame) for one in instances])
        home = Home(held.type, f"{held.name}.{target.attr}")
        _emit_state(frame, home, old, kind, reads_old=reads_old, fresh=False)
    if isinstance(owner, k.Instance) and not _is_dict(frame, owner):
        frame.interpreter.attributes.store(owner.cls, target.attr, _homeless(kind), frame)


def _is_dict(frame: Frame, owner: k.Instance) -> bool:
    """Return whether the class is a kind of dict. What one such object holds says nothing about the others."""
    return any(base.rpartition(".")[2] in _DICTS for base in frame.interpreter.project.lineage(owner.cls)[1])


def _is_own_module(frame: Frame, node: ast.expr) -> bool:
    """Return whether this is the module, or the module class, that the current method belongs to."""
    receiver, project = frame.receiver, frame.interpreter.project
    owners = receiver.members if receiver is not None else ()
    own = isinstance(node, ast.Name) and node.id in (frame.self_name, "cls")
    return own and any(isinstance(one, (k.Instance, k.Class)) and project.is_module_class(one.cls) for one in owners)


def note_forward(frame: Frame, kind: Kind) -> None:
    """Record a function that runs when a module is called: `self.forward = self.fast`, or a forward hook of `self`."""
    for one in kind.members:
        if isinstance(one, k.Partial):
            note_forward(frame, one.callee)
        elif isinstance(one, k.Function):
            frame.interpreter.forwards[one.function] = ""
            frame.interpreter.note_effect("forward", one.function)


def note_attribute(frame: Frame, event: type[Event], node: ast.Attribute, owner: Kind, **fields: Kind) -> None:
    """Emit an event if code reads or sets a watched attribute of a tensor or of another object outside the project.

    An attribute that a project class computes with a decorator from the standard library goes by the decorator's name,
    "functools.cached_property".
    """
    for one in owner.members:
        name = _attribute_name(frame, one, node.attr)
        if name and frame.interpreter.watched(name) is not None:
            frame.emit(event, node, extra=name, name=name, owner=one, **fields)


def _attribute_name(frame: Frame, owner: Kind, attribute: str) -> str | None:
    if isinstance(owner, k.Tensor):
        return f"Tensor.{attribute}"
    if isinstance(owner, k.Object):
        return f"{owner.type}.{attribute}"
    if isinstance(owner, k.External):
        return f"{owner.name}.{attribute}"
    if isinstance(owner, k.Function) and owner.receiver is None:
        return f"function.{attribute}"
    if isinstance(owner, k.Class):
        return _name_of_function(frame, owner.cls, attribute)
    if isinstance(owner, k.Instance):
        known = frame.interpreter.outside_names.get((owner.cls, attribute))
        if known is None:
            known = _name_outside(frame, owner, attribute)
            frame.interpreter.outside_names[owner.cls, attribute] = known
        return known
    return None


def _name_outside(frame: Frame, owner: k.Instance, attribute: str) -> str:
    """Return the name of an attribute that comes from a base class or decorator outside the project, or ""."""
    method = frame.interpreter.project.find_method(owner.cls, attribute)
    if method is not None and has_decorator(method, "cached_property"):
        for decorator in getattr(method.node, "decorator_list", ()):
            kind = frame.interpreter.scopes.in_scope(decorator, method.module, None)
            return kind.name if isinstance(kind, k.External) else ""
    of_function = _name_of_function(frame, owner.cls, attribute)
    if of_function:
        return of_function
    # Attributes that every module has are read so often that watching them is not worthwhile.
    bases = [base for base in frame.interpreter.project.lineage(owner.cls)[1] if base != "torch.nn.Module"]
    names = (f"{base}.{attribute}" for base in bases)
    return next((name for name in names if frame.interpreter.watched(name) is not None), "")


def _name_of_function(frame: Frame, cls: ClassInfo, attribute: str) -> str:
    """Return the name of a variable in an autograd function's class body, or of its `apply`, or "" otherwise."""
    project = frame.interpreter.project
    applied = attribute == "apply"
    if not applied and not any(attribute in one.body for one in project.mro(cls)):
        return ""
    if "torch.autograd.Function" not in project.lineage(cls)[1]:
        return ""
    return APPLY if applied else FUNCTION_VARIABLE


def note_item(frame: Frame, node: ast.Subscript, base: Kind) -> None:
    """Emit an event for setting or deleting an item of something outside the project."""
    name = frame.self_attribute(node.value)
    if name is not None:
        forget_attribute(frame, name)
    if isinstance(base, k.External):
        frame.emit(ItemWrite, node, name=base.name)


def _changes_state(frame: Frame) -> bool:
    """Return whether a store changes state that existed before the call. A new object has no state.

    The state of a torchmetrics metric does not count, because its `forward` resets the state before adding its inputs.
    """
    if frame.function is None or (frame.self_name and k.is_made(frame.env.get(frame.self_name))):
        return False
    owner = frame.function.owner
    names = frame.interpreter.project.lineage(owner)[1] if owner is not None else ()
    return not any(name.startswith("torchmetrics.") for name in names)


def held_by(frame: Frame, node: ast.expr) -> Home | None:
    """Return where an object that outlives the call is stored: in a global, or in an attribute of `self`.

    Attributes that this call has set do not count.
    """
    name = frame.self_attribute(node)
    if name is not None:
        is_new = f"{frame.self_name}.{name}" in frame.env or k.is_made(frame.env.get(frame.self_name or ""))
        return None if is_new else Home("attribute", name)
    if isinstance(node, ast.Name) and node.id not in frame.env:
        return Home("global", node.id)
    return None


def augmented_store(frame: Frame, node: ast.AugAssign, old: Kind, new: Kind) -> None:
    """Store the result of `target op= value`, which changes tensors and containers in place."""
    target = node.target
    method = _OPERATORS[type(node.op)]
    if isinstance(new, k.Unknown) and k.is_number(old) and isinstance(target, ast.Attribute):
        return  # a kind that is still unknown must not hide the attribute's kind permanently
    if isinstance(old, k.Tensor) and old.name is not None and not isinstance(target, ast.Subscript):
        frame.emit(InplaceChange, node, home=Home("attribute", old.name), tensor=old, method=method)
    if isinstance(old, k.Sequence) and old.home is not None and method == "iadd":
        frame.emit(ContainerChange, node, home=old.home, container=old, method=method, args=(new,))
    if isinstance(target, ast.Attribute):
        _write_attribute(frame, target, new, reads_old=True)
    elif isinstance(target, ast.Subscript):
        _augmented_item(frame, target, old, new)
    elif target.id in frame.globals:
        home = Home("global" if frame.globals[target.id] == "global" else "closure", target.id)
        _emit_state(frame, home, old, new, reads_old=True, fresh=target.id in frame.env)
        frame.env[target.id] = new
    else:
        frame.env[target.id] = new
        forget_name(frame, target.id)


def _augmented_item(frame: Frame, target: ast.Subscript, old: Kind, new: Kind) -> None:
    base = evaluate(frame, target.value)
    index = evaluate(frame, target.slice)
    if isinstance(base, (k.Dictionary, k.Sequence)) and base.home is not None and k.is_number(new):
        key = repr(index.constant) if isinstance(index, k.Value) and index.constant is not k.MISSING else "..."
        home = Home(base.home.type, f"{base.home.name}[{key}]")
        _emit_state(frame, home, old, new, reads_old=True, fresh=False)
    else:
        _store_item(frame, target, new)


def _store_item(frame: Frame, target: ast.Subscript, kind: Kind) -> None:
    """Assign to `base[index]`."""
    base, index = taken_apart(frame, target)
    note_index(frame, target, base, index, "store")
    note_item(frame, target, base)
    tensor = k.only_tensor(base)
    if tensor is not None and tensor.name is not None and frame.statement is not None:
        home = Home("attribute", tensor.name)
        frame.emit(InplaceChange, frame.statement, home=home, tensor=tensor, method="setitem")
    call_special(frame, base, "__setitem__", [index, kind])
    if isinstance(base, (k.Sequence, k.Dictionary)):
        if base.home is not None and frame.statement is not None:
            args = (index, kind)
            frame.emit(ContainerChange, frame.statement, home=base.home, container=base, method="setitem", args=args)
        rebind(frame, target.value, _with_item(base, index, kind))


def _with_item(base: k.Sequence | k.Dictionary, index: Kind, kind: Kind) -> Kind:
    """Return a container's kind after an item has been stored."""
    if isinstance(base, k.Sequence):
        return k.Sequence(base.type, k.shallow(join(base.element, kind)), None, base.home, base.fields)
    value = k.shallow(join(base.value, kind))
    if isinstance(index, k.Value) and index.constant is not k.MISSING:
        key = (type(index.constant), index.constant)
        known = {**base.by_key(), key: k.shallow(kind)}
        return k.dictionary(base.type, value, known, base.rest, base.optional - {key}, base.home)
    return replace(base, value=value, others=k.shallow(join(base.rest, kind)))
