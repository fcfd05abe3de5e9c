"""DYN805: compiled code reads a global that other code changes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dynalint.rulekit import (
    FunctionInfo,
    GlobalRead,
    Project,
    Rule,
    Violation,
    k,
    walk_function,
)
from dynalint_rules._code.growth import UP_TO_LIMIT

_CONSTANTS = ("int", "bool", "str", "none")


class ChangingGlobal(Rule):
    code = "DYN805"
    name = "changing-global"
    summary = "Compiled code reads a global that other code changes, so each value requires a separate graph"
    category = "advice"
    severity = "info"
    events = (GlobalRead,)
    refusal = (
        "the callers have to pass in the value; make it an argument or, if it is only used in computations, a "
        "tensor on the module that you update with `fill_`"
    )

    def check(self, event: GlobalRead, project: Project) -> Iterable[Violation]:
        """Flag a function's first read of a global that code outside the region sets."""
        item = _item(event, project)
        read, kind = (event.node, event.kind) if item is None else (item, project.kinds(event.function).get(item))
        if kind is None or not all(isinstance(one, k.Value) and one.type in _CONSTANTS for one in kind.members):
            return
        writer = next(_writers(event, read), None) if _is_first(event, read) else None
        if writer is not None:
            shown = ast.unparse(read)
            many = any(isinstance(one, k.Value) and one.type in ("int", "str") for one in kind.members)
            yield Violation(
                read,
                f"the graph contains `{shown}` as a constant, but `{writer.qualname}` changes it, so each new "
                "value recompiles" + (f" {UP_TO_LIMIT}" if many else ""),
                help="Pass the value in as an argument.",
            )


def _item(event: GlobalRead, project: Project) -> ast.Subscript | None:
    """Return the item that is read from a global dict."""
    parent = project.parents(event.function).get(event.node)
    is_read = isinstance(parent, ast.Subscript) and parent.value is event.node and isinstance(parent.ctx, ast.Load)
    return parent if is_read and isinstance(event.kind, k.Dictionary) else None  # type: ignore[return-value]


def _is_first(event: GlobalRead, read: ast.expr) -> bool:
    """Return whether this is the first read of the global or item in the function."""
    return not any(
        type(node) is type(read)
        and ast.dump(node) == ast.dump(read)
        and (node.lineno, node.col_offset) < (read.lineno, read.col_offset)
        for node in walk_function(event.function.node)
        if isinstance(node, ast.expr)
    )


def _writers(event: GlobalRead, read: ast.expr) -> Iterator[FunctionInfo]:
    """Yield the functions outside the region that set the global or the item."""
    for function in event.function.module.functions:
        if not function.reached and any(_sets(node, event.name, read) for node in walk_function(function.node)):
            own = event.name in function.locals
            declared = event.name in {name for node in walk_function(function.node) for name in _declared(node)}
            if declared or (isinstance(read, ast.Subscript) and not own):
                yield function


def _declared(node: ast.AST) -> list[str]:
    return node.names if isinstance(node, ast.Global) else []


def _sets(node: ast.AST, name: str, read: ast.expr) -> bool:
    """Return whether a node is the target of an assignment to the global or item."""
    if isinstance(read, ast.Subscript):
        same = isinstance(node, ast.Subscript) and ast.unparse(node) == ast.unparse(read)
        return same and isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
