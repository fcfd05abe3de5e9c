"""Methods of lists, dicts, strings and other builtin types: what they return and what they change."""

from __future__ import annotations

import ast
from dataclasses import replace

from dynalint.analysis import kinds as k
from dynalint.analysis.events import ContainerChange, Format
from dynalint.analysis.frame import Frame
from dynalint.analysis.kinds import NONE, NOTHING, UNKNOWN, Kind, join, join_all
from dynalint.analysis.stores import rebind

_CHANGING = {
    "append", "appendleft", "extend", "insert", "pop", "popleft", "popitem", "remove", "clear", "sort", "reverse",
    "update", "setdefault", "add", "discard", "add_module", "__setitem__",
}  # fmt: skip
_OF_ITSELF = {"to", "cuda", "cpu", "train", "eval", "half", "float", "double", "bfloat16", "requires_grad_", "apply"}
_BOOL_METHODS = {"startswith", "endswith", "isdigit", "isalpha", "isspace", "isupper", "islower", "isinstance"}
_INT_METHODS = {"index", "count", "find", "rfind", "bit_length"}


def container_method(
    frame: Frame, receiver: k.Sequence | k.Dictionary | k.Value, name: str, args: list[Kind], node: ast.Call | None
) -> Kind:
    """Return the result of calling a method of a builtin value. Changes to a container are recorded and applied."""
    if isinstance(receiver, k.Value):
        return _value_method(frame, receiver, name, args, node)
    if name in _CHANGING and node is not None:
        if receiver.home is not None:
            frame.emit(ContainerChange, node, home=receiver.home, container=receiver, method=name, args=tuple(args))
        if isinstance(node.func, ast.Attribute):
            rebind(frame, node.func.value, changed(receiver, name, args))
    of_modules = _module_method(receiver, name)
    if of_modules is not None:
        return of_modules
    if isinstance(receiver, k.Sequence):
        return _sequence(receiver, name, args)
    result = _dictionary(receiver, name, args)
    return k.held_in(receiver, result) if name in ("get", "setdefault") else result


def _module_method(receiver: k.Sequence | k.Dictionary, name: str) -> Kind | None:
    """Return the result of a method that `nn.Sequential` and other containers inherit from `nn.Module`, or None."""
    if not receiver.type.startswith("torch.nn.") or name in _CHANGING:
        return None
    return receiver if name in _OF_ITSELF else state_of_module(name)


def state_of_module(method: str) -> Kind | None:
    """Return the result of a method of a module that lists its parameters or buffers, or None for other methods."""
    what = method.removeprefix("named_")
    if what not in ("parameters", "buffers"):
        return None
    tensor = k.Tensor(origin="parameter" if what == "parameters" else "buffer")
    return k.Sequence("view", tensor if what == method else k.sequence("tuple", [k.STR, tensor]))


def changed(receiver: k.Sequence | k.Dictionary, name: str, args: list[Kind]) -> Kind:
    """Return the kind of a container after one of its methods has been called."""
    if isinstance(receiver, k.Dictionary):
        if name == "update" and args and isinstance(args[0], k.Dictionary):
            return _updated(receiver, args[0])
        if name == "setdefault" and len(args) == 2:
            added = k.shallow(args[1])
            return replace(receiver, value=join(receiver.value, added), others=join(receiver.rest, added))
        loses = name in ("pop", "clear", "popitem", "update")
        return k.Dictionary(receiver.type, receiver.value, home=receiver.home) if loses else receiver
    element = receiver.element
    if name in ("append", "appendleft", "add") and args:
        return replace(receiver, element=k.shallow(join(element, args[0])), items=_appended(receiver, name, args[0]))
    if name == "insert" and len(args) == 2:
        return replace(receiver, element=k.shallow(join(element, args[1])), items=None)
    if name in ("extend", "update") and args:
        added = args[0].element if isinstance(args[0], k.Sequence) else UNKNOWN
        return replace(receiver, element=k.shallow(join(element, added)), items=None)
    return replace(receiver, items=None)


def _updated(receiver: k.Dictionary, given: k.Dictionary) -> k.Dictionary:
    """Return a dict updated with the items of another dict, which may lack some of its keys."""
    old, new = receiver.by_key(), given.by_key()
    known = {**old, **new}
    for key in given.optional & old.keys():
        known[key] = join(old[key], new[key])
    optional = (receiver.optional - (new.keys() - given.optional)) | (given.optional - old.keys())
    value, rest = join(receiver.value, given.value), join(receiver.rest, given.rest)
    return k.dictionary(receiver.type, value, known, rest, optional, receiver.home)


def _appended(receiver: k.Sequence, name: str, kind: Kind) -> tuple[Kind, ...] | None:
    # The length is forgotten because only the join of paths shows whether an `append` runs once or in a loop.
    return None if receiver.items is None or name != "append" or len(receiver.items) > 8 else (*receiver.items, kind)


def _sequence(receiver: k.Sequence, name: str, args: list[Kind]) -> Kind:
    if name in ("pop", "popleft"):
        return UNKNOWN if receiver.element is NOTHING else receiver.element
    if name in ("copy", "__iter__", "union", "intersection", "difference"):
        return replace(receiver, home=None)
    if name == "numel":
        return k.SIZE
    return k.INT if name in _INT_METHODS else NONE if name in _CHANGING else UNKNOWN


def _dictionary(receiver: k.Dictionary, name: str, args: list[Kind]) -> Kind:
    value = UNKNOWN if receiver.value is NOTHING else receiver.value
    if name in ("get", "pop", "setdefault"):
        key = args[0] if args else UNKNOWN
        known = receiver.get(key.constant) if isinstance(key, k.Value) and key.constant is not k.MISSING else None
        if known is not None and receiver.home is None:
            missing = isinstance(key, k.Value) and (type(key.constant), key.constant) in receiver.optional
            return join_all([known, *(args[1:] or [NONE])]) if missing else known
        if name == "setdefault" and len(args) > 1:
            return join(receiver.value, args[1])
        return join(value, args[1] if len(args) > 1 else NONE) if name == "get" else join_all([value, *args[1:]])
    keys = join_all([k.constant(key) for key, _ in receiver.items]) if receiver.items else UNKNOWN
    if name == "values":
        items = tuple(kind for _, kind in receiver.certain) or None
        return k.Sequence("view", value, items)
    if name == "items":
        pairs = tuple(k.sequence("tuple", [k.constant(key), kind]) for key, kind in receiver.certain) or None
        return k.Sequence("view", k.sequence("tuple", [keys, value]), pairs)
    if name == "keys":
        return k.Sequence("view", keys)
    return replace(receiver, home=None) if name == "copy" else UNKNOWN


def _value_method(frame: Frame, receiver: k.Value, name: str, args: list[Kind], node: ast.Call | None) -> Kind:
    if receiver.type == "str":
        if name == "format" and node is not None:
            for value, kind in zip(node.args, args, strict=False):
                if k.may_be_tensor(kind):
                    frame.emit(Format, value, style="format", kind=kind)
        if name in ("split", "rsplit", "splitlines"):
            return k.Sequence("list", k.STR)
        return k.BOOL if name in _BOOL_METHODS else k.INT if name in _INT_METHODS else k.STR
    if name == "item":
        return receiver
    return k.BOOL if name == "is_integer" else UNKNOWN
