"""The code that creates the value of an attribute or a module global."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dynalint.rulekit import ClassInfo, ContainerChange, InplaceChange, Project, walk
from dynalint_rules._code.changes import state_name


def makers(event: ContainerChange | InplaceChange, project: Project) -> Iterator[ast.AST]:
    """Yield the statements and expressions that may have created the changed value."""
    name, owner = state_name(event), event.function.owner
    if event.home.type == "attribute" and owner is not None:
        for cls in project.mro(owner):
            yield from (statement for _, statement in cls.stores.get(name, ()))
            yield from registered(cls, name)
            if name in cls.body:
                yield cls.body[name]
    bound = event.function.module.bindings.get(name)
    if event.home.type == "global" and isinstance(bound, list):
        yield from bound


def registered(cls: ClassInfo, name: str) -> Iterator[ast.expr]:
    """Yield the tensors that a class registers as buffers with this name."""
    for method in cls.methods.values():
        for node in walk(method.node):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "register_buffer"
            ):
                given = [*node.args, *(keyword.value for keyword in node.keywords)]
                if len(given) > 1 and isinstance(given[0], ast.Constant) and given[0].value == name:
                    yield given[1]
