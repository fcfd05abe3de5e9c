"""The attributes of `self` that code may change, or that a property reads, based on the source text.

A method includes the methods of `self` that it calls. `ANYTHING` stands for an unknown set of attributes.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from dynalint.analysis import kinds as k
from dynalint.analysis.index import ClassInfo, FunctionInfo, children
from dynalint.analysis.steps import remembered, step

if TYPE_CHECKING:
    from dynalint.analysis.kinds import Kind
    from dynalint.analysis.project import Project

ANYTHING: Final = frozenset({"*"})
_NOTHING: Final[frozenset[str]] = frozenset()
# Builtins that inspect their argument without changing it.
_LOOKING = frozenset({"isinstance", "issubclass", "hasattr", "getattr", "type", "id", "len", "super", "bool", "repr"})
_PURE = frozenset({"bool", "len", "any", "all", "isinstance"})
_PURE_NODES = (ast.Attribute, ast.Name, ast.Constant, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Call, ast.Return)
_SWITCHES = ("train", "eval")


def receiver_name(function: FunctionInfo) -> str | None:
    """Return the name of a method's first parameter."""
    return function.positional[0].arg if function.positional and function.owner is not None else None


def returned_value(function: FunctionInfo) -> ast.expr | None:
    """Return the expression that a function returns if its body is a single `return`, or None."""
    body = function.statements
    documented = len(body) == 2 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    returned = body[-1] if len(body) == 1 or documented else None
    return returned.value if isinstance(returned, ast.Return) else None


def read_by(project: Project, cls: ClassInfo | None, attribute: str) -> frozenset[str]:
    """Return the stored attributes that a read depends on: the attribute, or those that a property is computed from."""
    getter = None if cls is None else project.find_method(cls, attribute)
    if cls is None or getter is None or "property" not in getter.decorators:
        return frozenset({attribute})
    return remembered((read_by, cls, attribute), lambda: _read_by_getter(project, cls, getter, set()))


def _read_by_getter(project: Project, cls: ClassInfo, getter: FunctionInfo, seen: set[FunctionInfo]) -> frozenset[str]:
    own, found = receiver_name(getter), set()
    if getter in seen:
        return _NOTHING
    seen.add(getter)
    project.asked.add((returned_value, getter))
    value = returned_value(getter)
    pending: list[ast.AST] = [getter.node if value is None else value]
    while pending:
        step()
        node = pending.pop()
        if not isinstance(node, _PURE_NODES):
            return ANYTHING
        if isinstance(node, ast.Attribute):
            if not _is_named(node.value, own):
                return ANYTHING
            inner = project.find_method(cls, node.attr)
            if inner is None:
                found.add(node.attr)
            elif "property" in inner.decorators:
                found |= _read_by_getter(project, cls, inner, seen)
            continue
        if isinstance(node, ast.Call):
            if not (isinstance(node.func, ast.Name) and node.func.id in _PURE):
                return ANYTHING
            pending += node.args
            continue
        pending += children(node)
    return ANYTHING if "*" in found else frozenset(found)


def _is_named(node: ast.AST, name: str | None) -> bool:
    return name is not None and isinstance(node, ast.Name) and node.id == name


def changes_of(
    project: Project, cls: ClassInfo, call: ast.Call, self_name: str, function: FunctionInfo | None, callee: Kind
) -> frozenset[str]:
    """Return the attributes of `self`, an instance of `cls`, that a call in one of its methods may change."""
    owner = None if function is None else function.owner
    changed = _changed_by_call(project, cls, call, self_name, owner, set())
    if isinstance(callee, k.Function) and callee.function.parent is not None:
        return ANYTHING  # a nested definition may use `self` from the enclosing scope
    return changed


def _changed_by_call(
    project: Project, cls: ClassInfo, call: ast.Call, own: str, owner: ClassInfo | None, seen: set[FunctionInfo]
) -> frozenset[str]:
    """Return the attributes that a single call changes, ignoring calls in its arguments."""
    func = call.func
    if _is_given(call, own) and not (isinstance(func, ast.Name) and func.id in _LOOKING):
        return ANYTHING
    if not isinstance(func, ast.Attribute):
        return _NOTHING
    if isinstance(func.value, ast.Call) and isinstance(func.value.func, ast.Name) and func.value.func.id == "super":
        return _changed_by_method(project, cls, func.attr, owner, seen)
    if _is_named(func.value, own):
        return _changed_by_method(project, cls, func.attr, None, seen)
    held = func.value
    return frozenset({held.attr}) if isinstance(held, ast.Attribute) and _is_named(held.value, own) else _NOTHING


def direct_changes(method: FunctionInfo) -> tuple[object, ...]:
    """Return what determines the result of `changes_of` for a method, apart from the methods that it calls."""
    own = receiver_name(method)
    if own is None:
        return ()
    stored, calls, escapes = _read_body(method, own)
    return stored, escapes, frozenset(_described(call, own) for call in calls)


def _described(call: ast.Call, own: str) -> tuple[object, ...]:
    func = call.func
    given = _is_given(call, own) and not (isinstance(func, ast.Name) and func.id in _LOOKING)
    held = func.value if isinstance(func, ast.Attribute) else None
    name = func.attr if isinstance(func, ast.Attribute) else ""
    if isinstance(held, ast.Call) and isinstance(held.func, ast.Name) and held.func.id == "super":
        return given, "super", name
    if held is not None and _is_named(held, own):
        return given, "self", name
    return given, held.attr if isinstance(held, ast.Attribute) and _is_named(held.value, own) else None


def _is_given(call: ast.Call, name: str) -> bool:
    """Return whether a variable is an argument of a call."""
    for argument in call.args:
        if isinstance(argument, ast.Name) and argument.id == name:
            return True
    return any(_is_named(keyword.value, name) for keyword in call.keywords) if call.keywords else False


def _changed_by_method(
    project: Project, cls: ClassInfo, name: str, after: ClassInfo | None, seen: set[FunctionInfo]
) -> frozenset[str]:
    method = project.find_method(cls, name, after)
    if method is not None:
        return _changed_by_body(project, cls, method, seen)
    if name in _SWITCHES:
        return frozenset({"training"})
    classes = project.mro(cls)
    if after is None and any(name in one.attributes or name in one.writers or name in one.body for one in classes):
        return _NOTHING  # a layer or function has no reference to the module that owns it
    api = project.api.torch_class("torch.nn.Module")
    return _NOTHING if api is not None and api.method(name) is not None else ANYTHING


def _changed_by_body(project: Project, cls: ClassInfo, method: FunctionInfo, seen: set[FunctionInfo]) -> frozenset[str]:
    if method in seen:
        return _NOTHING
    seen.add(method)
    project.asked.add((direct_changes, method))
    own = receiver_name(method)
    if own is None or "staticmethod" in method.decorators or "classmethod" in method.decorators:
        return _NOTHING
    if _read_body not in method.known:
        method.known[_read_body] = _read_body(method, own)
    stored, calls, escapes = method.known[_read_body]
    if escapes:
        return ANYTHING
    found = set(stored)
    for call in calls:
        found |= _changed_by_call(project, cls, call, own, method.owner, seen)
        if "*" in found:
            return ANYTHING
    return frozenset(found)


def _read_body(method: FunctionInfo, own: str) -> tuple[frozenset[str], tuple[ast.Call, ...], bool]:
    """Return which attributes of `self` a method stores, which calls it makes, and whether `self` escapes."""
    stored: set[str] = set()
    calls: list[ast.Call] = []
    escapes = False
    pending: list[ast.AST] = [*method.statements]
    while pending:
        node = pending.pop()
        pending += children(node)
        step()
        if isinstance(node, ast.Call):
            calls.append(node)
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            target = node.value if isinstance(node, ast.Subscript) else node
            if isinstance(target, ast.Attribute) and _is_named(target.value, own):
                stored.add(target.attr)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            escapes = escapes or _is_named(node.value, own)
    return frozenset(stored), tuple(calls), escapes
