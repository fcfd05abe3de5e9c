"""Whether a side of a branch wants what a name held before it: what is computed of it for nothing does not count.

    if t:
        d = a * 2       # nothing reads `d`: no gradient comes back to `a` from here
        a = b + 1.5
    return a

A side that does not want a name may be given something else under it, and gives it no gradient.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from dynalint.analysis.steps import walk
from dynalint_rules._shared.cheap import is_cheap
from dynalint_rules._shared.liveness import first_use, has_rounds, is_dead_after, is_used_elsewhere, rest_of
from dynalint_rules._shared.memory import is_own
from dynalint_rules._shared.scope import Scope

_WITHOUT_GRADIENT = frozenset("detach argmax argmin any all isnan isinf isfinite".split())


def is_wanted_by(scope: Scope, name: str, side: Sequence[ast.stmt], head: ast.stmt, *, asked: bool = True) -> bool:
    """Whether a side of the branch `head` reads what `name` held before it for something that is read in its turn.

    Tests count as reads if it is `asked` for these, too. Else the question is whether a gradient comes back from it,
    whichever way is taken in the side and after it.
    """
    jumps = any(isinstance(one, ast.Break | ast.Continue) for one in walk(scope.function.node))
    if jumps or is_used_elsewhere(scope, name):
        use = first_use(side, name)
        return use == "read" or (use is None and not is_dead_after(scope, name, head))
    wanted = _Wanted(scope, asked)
    return name in wanted.before(side, wanted.after(head))


@dataclass(frozen=True)
class _Wanted:
    """The names that are wanted at a place, from the end of the function on."""

    scope: Scope
    asked: bool

    def after(self, statement: ast.stmt) -> frozenset[str]:
        """Return the names that are wanted after a statement."""
        parent = self.scope.parents[statement]
        if parent is self.scope.function.node:
            outer: frozenset[str] = frozenset()
        elif isinstance(parent, ast.If):
            outer = self.after(parent)
        elif isinstance(parent, ast.For | ast.While):
            outer = self.after(parent) | self._read_in([parent])
        else:
            outer = self._read_in([self.scope.function.node])
        return self.before(rest_of(parent, statement), outer)

    def before(self, statements: Sequence[ast.stmt], after: frozenset[str]) -> frozenset[str]:
        """Return the names that are wanted before statements, if those in `after` are wanted after them."""
        return reduce(lambda wanted, one: self._before_one(one, wanted), reversed(statements), after)

    def _before_one(self, statement: ast.stmt, after: frozenset[str]) -> frozenset[str]:
        if isinstance(statement, ast.If):
            ways = [self.before(block, after) for block in (statement.body, statement.orelse)]
            return ways[0] | ways[1] | self._read_in([statement.test]) if self.asked else ways[0] & ways[1]
        if isinstance(statement, ast.Return):
            return self._read_in([statement])
        if isinstance(statement, ast.For) and not statement.orelse:
            return self._before_loop(statement, after)
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            own = is_own(self.scope, name, statement)
            idle = name not in after and own and is_cheap(self.scope, statement.value, layers=True)
            return after if idle else after | self._read_in([statement])
        if not isinstance(statement, ast.Assign):
            return after | self._read_in([statement])
        pairs = [pair for target in statement.targets for pair in _pairs(target, statement.value)]
        if not all(isinstance(target, ast.Name) for target, _ in pairs):
            return after | self._read_in([statement])
        bound = {target.id for target, _ in pairs if isinstance(target, ast.Name)}
        wanted = [
            value
            for target, value in pairs
            if ast.unparse(target) in after or not is_cheap(self.scope, value, layers=True)
        ]
        return (after - bound) | self._read_in(wanted)

    def _before_loop(self, loop: ast.For, after: frozenset[str]) -> frozenset[str]:
        if any(isinstance(node, ast.Return | ast.Try) for node in walk(loop)):
            return after | self._read_in([loop])
        ends, last = after, frozenset[str]()
        while ends != last:
            last, ends = ends, ends | self.before(loop.body, ends)
        begins = self.before(loop.body, ends) if has_rounds(loop.iter) else ends
        return begins | self._read_in([loop.iter])

    def _read_in(self, nodes: Iterable[ast.AST]) -> frozenset[str]:
        return read_in(nodes, asked=self.asked)


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Return the targets in one, each with what it is given, or what that is part of."""
    if not isinstance(target, ast.Tuple | ast.List):
        return [(target, value)]
    values = [value] * len(target.elts)
    starred = any(isinstance(one, ast.Starred) for one in [*target.elts, *getattr(value, "elts", ())])
    if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) and not starred:
        values = value.elts
    return [pair for one, given in zip(target.elts, values, strict=True) for pair in _pairs(one, given)]


def read_in(nodes: Iterable[ast.AST], *, asked: bool = True) -> frozenset[str]:
    """Return the names that are read in nodes; those that a gradient comes back to if none is `asked` for else."""
    parts = [one for node in nodes for one in (walk(node) if asked else _differentiated(node))]
    changed = {one.target.id for one in parts if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name)}
    return frozenset(changed.union(one.id for one in parts if isinstance(one, ast.Name) and _is_read(one)))


def _differentiated(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and those in it, but for what gives no gradient to what it reads."""
    called = node.func if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Compare) or (isinstance(called, ast.Attribute) and called.attr in _WITHOUT_GRADIENT):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _differentiated(child)


def _is_read(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Store)
