"""Attributes that `__getattr__` reads from an object that the instance holds, as wrappers of models do."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from dynalint.analysis import kinds as k
from dynalint.analysis.frame import Frame
from dynalint.analysis.index import FunctionInfo, walk_function
from dynalint.analysis.steps import remembered

# The dicts of an instance, and the methods that read an attribute without calling `__getattr__` of the class itself.
_DICTS = frozenset({"__dict__", "_modules", "_parameters", "_buffers"})
_READERS = frozenset({"__getattr__", "__getattribute__"})


def delegated(frame: Frame, owner: k.Instance, name: str, read: Callable[[Frame, k.Kind, str], k.Kind]) -> k.Kind:
    """Return the attribute that the `__getattr__` of an instance's class finds in the objects that it searches.

    `read` reads an attribute. Objects that define `__getattr__` themselves are left out.
    """
    project = frame.interpreter.project
    method = project.find_method(owner.cls, "__getattr__")
    held = () if method is None or name.startswith("__") else holders(method)
    if name in held:
        return k.UNKNOWN
    inner = [one for attribute in held for one in read(frame, owner, attribute).members if one != k.NONE]
    kept = [one for one in inner if not (isinstance(one, k.Instance) and project.find_method(one.cls, "__getattr__"))]
    return k.join_all([read(frame, one, name) for one in kept]) if kept else k.UNKNOWN


def holders(method: FunctionInfo) -> tuple[str, ...]:
    """Return the attributes of `self` whose objects a `__getattr__` searches."""
    return remembered((holders, method), lambda: tuple(dict.fromkeys(_holders(method))))


def _holders(method: FunctionInfo) -> Iterator[str]:
    arguments = getattr(method.node, "args", None)
    given = [one.arg for one in (*arguments.posonlyargs, *arguments.args)] if arguments is not None else []
    for node in walk_function(method.node) if len(given) == 2 else ():
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr"):
            continue
        name = node.args[1] if len(node.args) > 1 else None
        held = _attribute(node.args[0], given[0]) if isinstance(name, ast.Name) and name.id == given[1] else None
        if held is not None:
            yield held


def _attribute(node: ast.expr, receiver: str) -> str | None:
    """Return the attribute in `self.inner`, `self._modules["inner"]` or `super().__getattr__("inner")`."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == receiver:
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr in _DICTS:
        return _text(node.slice)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _READERS and node.args:
        return _text(node.args[-1])
    return None


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
