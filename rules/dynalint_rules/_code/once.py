"""Methods that only run once: `if not self.ready: self.build()`, where `build` sets the flag."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dynalint.rulekit import FunctionInfo, Project, walk, walk_function

_MOST_CALLERS = 3


def guards(function: FunctionInfo, project: Project) -> Iterator[tuple[ast.If, list[FunctionInfo]]]:
    """Yield each `if` around the only call of a method, and of its only caller, with the methods that it leads to."""
    chain = [function]
    for _ in range(_MOST_CALLERS):
        callers = [one for one in chain[-1].called_by if one is not chain[-1]]
        if len(callers) != 1 or callers[0] in chain:
            return
        parents, name = project.parents(callers[0]), chain[-1].name
        attributes = (node for node in walk_function(callers[0].node) if isinstance(node, ast.Attribute))
        calls = [node for node in attributes if node.attr == name and isinstance(parents.get(node), ast.Call)]
        if len(calls) != 1:
            return
        inner: ast.AST = calls[0]
        while (outer := parents.get(inner)) is not None and outer is not callers[0].node:
            if isinstance(outer, ast.If) and inner in outer.body:
                yield outer, chain
            inner = outer
        chain = [*chain, callers[0]]


def runs_once(function: FunctionInfo, project: Project) -> bool:
    """Return whether a method is only called under a test of an attribute that the call, or what follows it, sets."""
    return any(
        target.attr in {node.attr for node in walk(guard.test) if isinstance(node, ast.Attribute)}
        for guard, chain in guards(function, project)
        for statement in (*guard.body, *(one for method in chain for one in method.statements))
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Attribute)
    )
