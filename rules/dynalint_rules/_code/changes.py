"""Changes to the same state in other places of the compiled code."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import cast

from dynalint.rulekit import (
    ClassInfo,
    ContainerChange,
    FunctionInfo,
    Import,
    InplaceChange,
    Project,
    StateChange,
    k,
    walk,
    walk_function,
)

Change = StateChange | ContainerChange

_SHRINKING = frozenset({"pop", "popleft", "popitem", "clear", "remove", "discard"})


def state_name(event: Change | InplaceChange) -> str:
    """Return the last name that leads to the state, such as "n" for `self.stats.n` or "stats" for `self.stats["n"]`."""
    return event.home.name.partition("[")[0].rpartition(".")[2]


def same(left: ast.expr, right: ast.expr) -> bool:
    """Return whether two expressions have the same text. Whether they are read or assigned does not matter."""
    return type(left) is type(right) and ast.unparse(left) == ast.unparse(right)


def names(node: ast.AST, name: str) -> bool:
    """Return whether an expression is an attribute or variable called `name`, or an item of one."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return (isinstance(node, ast.Attribute) and node.attr == name) or (isinstance(node, ast.Name) and node.id == name)


def mentions(node: ast.AST, name: str) -> bool:
    """Return whether an attribute or variable called `name` occurs anywhere in a node."""
    return any(names(part, name) for part in walk(node))


def reached_functions(project: Project, name: str) -> Sequence[FunctionInfo]:
    """Return the functions, except constructors, that a compiled root reaches and whose text contains `name`."""
    modules = project.mentioning(name)
    read, found = cast("tuple[int, list[FunctionInfo]]", project.answers.get((reached_functions, name), (0, [])))
    if read < len(modules):
        new = (function for module in modules[read:] for function in module.functions)
        found = [*found, *(one for one in new if one.reached and one.name != "__init__" and name in one.text)]
        project.answers[reached_functions, name] = len(modules), found
    return found


def related(left: ClassInfo | None, right: ClassInfo | None, project: Project) -> bool:
    """Return whether `self` can be the same object in methods of both classes. If this is unknown, return True."""
    return left is None or right is None or left in project.mro(right) or right in project.mro(left)


def sets_elsewhere(event: Change | InplaceChange, project: Project) -> bool:
    """Return whether another statement in the region sets the state to an unrelated value."""
    return any(True for _ in other_changes(event, project))


def other_changes(event: Change | InplaceChange, project: Project) -> Iterator[tuple[FunctionInfo, ast.stmt]]:
    """Yield the other statements in the region, or in methods that it may call, that set or shrink the state."""
    name, sort = state_name(event), _sort_of_name(event)
    for function, statement in _setters(project, name, sort):
        if statement is event.statement:
            continue
        if _may_name(function, event, sort, project) or (
            sort is ast.Attribute and _is_of_class(statement, name, event.function.owner, function, project)
        ):
            yield function, statement
    for cls in project.mro(event.function.owner) if event.function.owner is not None and sort is ast.Attribute else ():
        for method, statement in cls.stores.get(name, ()):
            known = method.reached or method.name == "__init__" or not _sets(statement, name, sort)
            if not known and _is_called_somewhere(method.name, project):
                yield method, statement


def is_collected(event: Change, project: Project) -> bool:
    """Return whether code that is not compiled collects items, and takes them away itself, usually after each call.

    It empties the collection of an object that is no module, takes single items out of that of a module, or is a
    function that removes the hook that collects.
    """
    name, owner, outer = state_name(event), event.function.owner, event.function.parent
    if event.home.type == "closure" and outer is not None:
        return any(isinstance(one, ast.Attribute) and one.attr == "remove" for one in walk_function(outer.node))
    if owner is None or event.home.type != "attribute":
        return False
    methods = (one for cls in project.mro(owner) for one in cls.methods.values())
    takes = _takes_one if project.is_module_class(owner) else _sets_attribute
    return any(
        takes(node, name)
        for one in methods
        if one.name != "__init__" and not one.reached and name in one.text
        for node in walk_function(one.node)
    )


def _sets_attribute(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.stmt) and _sets(node, name, ast.Attribute)


def _takes_one(node: ast.AST, name: str) -> bool:
    """Return whether a node is a call that takes an item out of a list or deque, as in `self.outputs.popleft()`."""
    method = node.func if isinstance(node, ast.Call) else None
    return isinstance(method, ast.Attribute) and method.attr in ("pop", "popleft") and names(method.value, name)


def _setters(project: Project, name: str, sort: type[ast.expr]) -> Sequence[tuple[FunctionInfo, ast.stmt]]:
    """Return the statements in the region that set or shrink an attribute or variable called `name`."""
    functions, key = reached_functions(project, name), (_setters, name, sort)
    read, found = cast("tuple[int, list[tuple[FunctionInfo, ast.stmt]]]", project.answers.get(key, (0, [])))
    if read < len(functions):
        using = {around for _, one, _ in project.attribute_uses(name) for around in _with_outer(one)}
        named = [one for one in functions[read:] if sort is ast.Name or one in using]
        new = ((function, node) for function in named for node in walk_function(function.node))
        found = [*found, *((one, node) for one, node in new if isinstance(node, ast.stmt) and _sets(node, name, sort))]
        project.answers[key] = len(functions), found
    return found


def _with_outer(function: FunctionInfo | None) -> Iterator[FunctionInfo]:
    """Yield a function and those around it."""
    while function is not None:
        yield function
        function = function.parent


def _is_of_class(
    statement: ast.stmt, name: str, owner: ClassInfo | None, function: FunctionInfo, project: Project
) -> bool:
    """Return whether a statement names the attribute of an object of the class, as in `self.cell.h = None`."""
    kinds = project.kinds(function)
    held = [node.value for node in walk(statement) if isinstance(node, ast.Attribute) and node.attr == name]
    return owner is not None and any(
        isinstance(one, k.Instance) and related(one.cls, owner, project)
        for node in held
        for one in kinds.get(node, k.UNKNOWN).members
    )


def _is_called_somewhere(name: str, project: Project) -> bool:
    """Return whether compiled code calls a method with this name of an unknown object."""
    for _, function, node in project.attribute_uses(name):
        if function is not None and function.reached:
            unknown = k.UNKNOWN in project.kinds(function).get(node.value, k.UNKNOWN).members
            parent = project.parents(function).get(node)
            if unknown and isinstance(parent, ast.Call) and parent.func is node:
                return True
    return False


def _sort_of_name(event: Change | InplaceChange) -> type[ast.expr]:
    """Return whether the state is stored in an attribute or in a variable."""
    return ast.Attribute if event.home.type in ("attribute", "class") or "." in event.home.name else ast.Name


def _may_name(function: FunctionInfo, event: Change | InplaceChange, sort: type[ast.expr], project: Project) -> bool:
    """Return whether the state's name may refer to it in another function as well."""
    own = event.function
    if event.home.type == "default":
        return function is own
    if sort is ast.Name:
        return function.module is own.module or isinstance(function.module.bindings.get(state_name(event)), Import)
    owner, other = _class_around(function), _class_around(own)
    if owner is None or other is None:
        return function.module is own.module
    return related(owner, other, project)


def _class_around(function: FunctionInfo) -> ClassInfo | None:
    """Return the class that defines a method, or that defines the method around a nested function."""
    return next((around.owner for around in _with_outer(function) if around.owner is not None), None)


def _sets(statement: ast.stmt, name: str, sort: type[ast.expr]) -> bool:
    """Return whether a statement sets or shrinks the attribute or variable called `name`."""

    def named(node: ast.expr) -> bool:
        while isinstance(node, ast.Subscript):
            node = node.value
        return isinstance(node, sort) and names(node, name)

    if isinstance(statement, ast.Assign):
        if any(named(part) for target in statement.targets for part in getattr(target, "elts", (target,))):
            return not mentions(statement.value, name)
    elif isinstance(statement, ast.Delete):
        return any(named(target) for target in statement.targets)
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr in _SHRINKING
        and named(part.func.value)
        for child in ast.iter_child_nodes(statement)
        if isinstance(child, ast.expr)
        for part in walk(child)
    )
