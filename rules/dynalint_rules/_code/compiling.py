"""Uses of `torch.compile`: calls to it, and the names that hold their results."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from dynalint.rulekit import CompilerUse, Event, FunctionInfo, Project, dotted_name, walk_function

DISTRIBUTED = ("torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel")


@dataclass(frozen=True)
class Compilation:
    """A call `torch.compile(subject, ...)`.

    `target` is the source text of the name to which its result is assigned, if any.
    """

    call: ast.Call
    subject: ast.expr
    target: str | None


def compilation(event: Event, project: Project) -> Compilation | None:
    """Return the call to `torch.compile` in an event, if it has a subject."""
    if not isinstance(event, CompilerUse) or event.name != "torch.compile":
        return None
    parents = project.parents(event.function)
    call = parents.get(event.node)
    if not isinstance(call, ast.Call) or call.func is not event.node or not call.args:
        return None
    if isinstance(call.args[0], ast.Starred):
        return None
    return Compilation(call, call.args[0], _target(call, parents.get(call)))


def _target(call: ast.Call, parent: ast.AST | None) -> str | None:
    targets: list[ast.expr] = []
    if isinstance(parent, ast.Assign):
        targets = parent.targets
    elif isinstance(parent, ast.AnnAssign) and parent.value is call:
        targets = [parent.target]
    plain = [target for target in targets if isinstance(target, ast.Name | ast.Attribute)]
    return ast.unparse(plain[0]) if len(plain) == 1 == len(targets) else None


def option(call: ast.Call, name: str) -> object:
    """Return the constant that a call passes for a keyword, or None."""
    values = [keyword.value for keyword in call.keywords if keyword.arg == name]
    return values[0].value if values and isinstance(values[0], ast.Constant) else None


def calls_after(place: ast.AST, function: FunctionInfo) -> Iterator[ast.Call]:
    """Yield the function's calls after a position, from top to bottom."""
    line = getattr(place, "end_lineno", 0)
    calls = [node for node in walk_function(function.node) if isinstance(node, ast.Call) and node.lineno > line]
    yield from sorted(calls, key=lambda node: (node.lineno, node.col_offset))


def is_call_of(node: ast.AST, written: str) -> bool:
    """Return whether a node is a call to the expression that is written as `written`."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) == written


def set_again(written: str, start: ast.AST, end: ast.AST, function: FunctionInfo) -> bool:
    """Return whether a name is assigned again on a line between two positions."""
    first, last = getattr(start, "end_lineno", 0), getattr(end, "lineno", 0)
    return any(
        isinstance(node, ast.Name | ast.Attribute)
        and isinstance(node.ctx, ast.Store | ast.Del)
        and first < node.lineno < last
        and ast.unparse(node) == written
        for node in walk_function(function.node)
    )


def external_name(node: ast.expr, event: Event, project: Project) -> str | None:
    """Return the dotted name of an expression that refers to something outside the project."""
    assert project.interpreter is not None
    return dotted_name(project.interpreter, event.function, node)


def loops_around(node: ast.AST, event: Event, project: Project) -> list[ast.For | ast.While]:
    """Return the loops around a node in its function, innermost first."""
    parents = project.parents(event.function)
    found: list[ast.For | ast.While] = []
    inner, outer = node, parents.get(node)
    while outer is not None:
        if isinstance(outer, ast.For | ast.While) and inner in outer.body:
            found.append(outer)
        inner, outer = outer, parents.get(outer)
    return found
