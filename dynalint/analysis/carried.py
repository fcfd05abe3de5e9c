"""Find the variables that a loop carries from one iteration to the next.

If none of them has changed, another iteration has the same effect, so the loop does not need to be followed again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from dynalint.analysis.steps import all_nodes

# Nested functions read a variable when they run, not where they are defined. The other statements change what a name
# refers to.
_OPAQUE = (
    *(ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.Global, ast.Nonlocal, ast.Delete, ast.Match),
)
_BLOCKS = ("body", "handlers", "orelse", "finalbody")


class _Unknown(Exception):  # noqa: N818 - not an error, but the answer that anything may be read
    pass


def carried(target: ast.expr | None, test: ast.expr | None, body: Sequence[ast.stmt]) -> frozenset[str] | None:
    """Return the names that an iteration may read before it binds them, or None if this cannot be determined.

    `target` is the target of a `for`, `test` the condition of a `while`.
    """
    read: set[str] = set()
    try:
        bound = set() if target is None else _bound_by(target, read, set())
        if test is not None:
            _read_in([test], bound, read)
        _block(body, bound, read)
    except _Unknown:
        return None
    return frozenset(read)


def _block(body: Iterable[ast.AST], bound: set[str], read: set[str]) -> None:
    """Collect the names that statements read, and add the names that every path to the end binds to `bound`."""
    for statement in body:
        if isinstance(statement, _OPAQUE):
            raise _Unknown
        blocks = [getattr(statement, name, None) for name in _BLOCKS]
        inside = [one for block in blocks if isinstance(block, list) for one in block]
        apart = {*inside}
        below = [one for one in ast.iter_child_nodes(statement) if one not in apart]
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            _read_in(below, bound, read)
            _block(statement.body, bound, read)
        elif inside:
            targets = [statement.target] if isinstance(statement, (ast.For, ast.AsyncFor)) else []
            _read_in([one for one in below if one not in targets], bound, read)
            own = {*bound}
            for one in targets:
                own |= _bound_by(one, read, bound)
            for block in filter(None, blocks):
                _block(block, {*own}, read)
        else:
            _read_in(below, bound, read)
            if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
                read |= {statement.target.id} - bound
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            for one in targets:
                bound |= _bound_by(one, read, bound)


def _bound_by(target: ast.expr, read: set[str], bound: set[str]) -> set[str]:
    """Return the names that a target always binds, and collect those that it reads."""
    _read_in([target], bound, read)
    parts = [target]
    for part in parts:
        parts += part.elts if isinstance(part, (ast.Tuple, ast.List)) else ()
        parts += [part.value] if isinstance(part, ast.Starred) else ()
    return {part.id for part in parts if isinstance(part, ast.Name)}


def _read_in(nodes: Iterable[ast.AST], bound: set[str], read: set[str]) -> None:
    for node in (below for one in nodes for below in all_nodes(one)):
        if isinstance(node, _OPAQUE):
            raise _Unknown
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in bound:
            read.add(node.id)
