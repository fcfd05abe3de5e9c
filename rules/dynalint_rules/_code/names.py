"""Find where local names are read and bound, and which values they have."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeGuard

from dynalint.rulekit import Refusal, k, remembered, step, walk
from dynalint_rules._code.scope import Scope, as_tensor

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.Assert)
# Expressions with parts that may not run, or that may run later.
_CONDITIONAL = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def loads(scope: Scope, name: str) -> Iterator[ast.Name]:
    """Yield every read of `name` in the function, including nested functions."""
    return _stepping(_in_context(scope, name, ast.Load))


def names(scope: Scope, name: str) -> Iterator[ast.Name]:
    """Yield every use of `name` in the function, including nested functions."""
    return _stepping(scope.names.get(name, ()))


def named(scope: Scope, name: str) -> Iterator[ast.Name | ast.pattern | ast.excepthandler]:
    """Yield every use of `name` in the function like `names`, and then the patterns and handlers that bind it."""
    yield from names(scope, name)
    known = scope.function.known
    if named not in known:
        bound = (ast.MatchAs, ast.MatchStar, ast.ExceptHandler)
        known[named] = [node for node in walk(scope.function.node) if isinstance(node, bound)]
    yield from (node for node in known[named] if node.name == name)


def stores(scope: Scope, name: str) -> Iterator[ast.Name]:
    """Yield every assignment to `name` in the function, including nested functions."""
    return _stepping(_in_context(scope, name, ast.Store))


def _in_context(scope: Scope, name: str, context: type[ast.expr_context]) -> list[ast.Name]:
    known, key = scope.function.known, (_in_context, name, context)
    if key not in known:
        known[key] = [node for node in names(scope, name) if isinstance(node.ctx, context)]
    found: list[ast.Name] = known[key]
    return found


def _stepping(nodes: Iterable[ast.Name]) -> Iterator[ast.Name]:
    """Yield nodes, of which only those that are looked at take a step."""
    for node in nodes:
        step()
        yield node


def within(node: ast.AST, outer: ast.AST, scope: Scope) -> bool:
    """Return whether `node` is `outer` or inside it."""
    return any(one is outer for one in lineage(scope, node))


def lineage(scope: Scope, node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and the nodes around it in the function, innermost first."""
    current: ast.AST | None = node
    while current is not None:
        yield current
        current = scope.parents.get(current)


def kind_of_name(scope: Scope, name: str, around: ast.stmt) -> k.Kind:
    """Return the kind of `name` at `around` as its readers see it, or `NOTHING` if there are none.

    A read after the statement sees the join of the values from before it and from inside it, so its kind covers both.
    """
    inside, end, kinds = nodes_in(around), around.end_lineno or 0, scope.kinds
    reads = _in_context(scope, name, ast.Load)
    step(len(reads))
    seen = [kinds.get(node) for node in reads if node.lineno > end or node in inside]
    found: k.Kind = k.NOTHING
    for kind in {id(kind): kind for kind in seen if kind is not None}.values():
        found = k.join(found, kind)
    return found


def nodes_in(node: ast.AST) -> frozenset[ast.AST]:
    """Return a node and all its descendants."""
    return remembered((nodes_in, node), lambda: frozenset(walk(node)))


def kind_left(scope: Scope, name: str, around: ast.stmt) -> k.Kind:
    """Return the kind of `name` after `around` on paths that leave it unchanged."""
    after = kind_of_name(scope, name, around)
    if as_tensor(after) is not None:
        return after
    # A later read may see a value from another path.
    before = kind_before(scope, name, around)
    is_known = as_tensor(before) is not None or (before != k.NOTHING and k.is_number(before))
    return before if is_known else after


def kind_before(scope: Scope, name: str, statement: ast.stmt) -> k.Kind:
    """Return the kind of a name before a statement, taken from the last earlier code that always sets or reads it."""
    if isinstance(statement, ast.If) and (read := _read_always(scope, statement.test, name)) is not None:
        return read
    for one in before(scope, name, statement):
        value = value_for(one, name)
        if value is not None or sets(one, name):
            return scope.kind(value) if value is not None else k.NOTHING
        if isinstance(one, _SIMPLE) and (read := _read_always(scope, one, name)) is not None:
            return read
    return k.NOTHING


def before(scope: Scope, name: str, statement: ast.stmt) -> Iterator[ast.stmt]:
    """Yield the statements that always run before a statement, latest first, as far as they determine a name."""
    current = statement
    while current is not scope.function.node:
        parent = scope.parents[current]
        earlier, _ = around(scope.parents, current)
        yield from reversed(earlier)
        unclear = isinstance(parent, ast.Try) or (isinstance(parent, _LOOPS) and sets(parent, name))
        if unclear or not isinstance(parent, ast.stmt):
            return
        current = parent


def around(parents: Mapping[ast.AST, ast.AST], node: ast.AST) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Return the statements before and after a statement in its block, or none if the node is not in a block."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parents.get(node), name, None)
        if isinstance(block, list) and node in block:
            place = block.index(node)
            return block[:place], block[place + 1 :]
    return [], []


def parameters(scope: Scope) -> set[str]:
    """Return the names of all the function's parameters."""
    return {node.arg for node in walk(scope.function.node.args) if isinstance(node, ast.arg)}


def sets(node: ast.AST, name: str) -> bool:
    """Return whether any part of a node rebinds or deletes `name`."""
    return any(
        (is_named(child, name) and not (isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load)))
        or (isinstance(child, ast.Global | ast.Nonlocal) and name in child.names)
        for child in walk(node)
    )


def _read_always(scope: Scope, node: ast.AST, name: str) -> k.Kind | None:
    """Return the kind of a name if a node always reads it, or None."""
    if isinstance(node, ast.Name):
        return scope.kinds.get(node) if node.id == name and isinstance(node.ctx, ast.Load) else None
    if isinstance(node, _CONDITIONAL):
        return None
    found = (_read_always(scope, child, name) for child in ast.iter_child_nodes(node))
    return next((kind for kind in found if kind is not None), None)


def is_bound_before(scope: Scope, name: str, statement: ast.stmt) -> bool:
    """Return whether `name` has a value on every path to `statement`."""
    if name in parameters(scope):
        return True
    current: ast.AST = statement
    while current is not scope.function.node:
        parent = scope.parents.get(current)
        if parent is None:
            return False
        if any(_always_binds(one, name) for one in around(scope.parents, current)[0]):
            return True
        if isinstance(parent, ast.For) and _has_target(parent.target, name) and current in parent.body:
            return True
        current = parent
    return False


def statement_of(scope: Scope, node: ast.AST) -> ast.stmt:
    """Return the statement that a node is or belongs to.

    Raises:
        Refusal: If the function is a lambda, which has no statements.
    """
    while not isinstance(node, ast.stmt):
        if node is scope.function.node:
            raise Refusal(
                f"{scope.quote(scope.function.node)} is a lambda, which cannot contain statements; write a function"
            )
        node = scope.parents[node]
    return node


def may_be_unbound(scope: Scope, value: ast.expr) -> bool:
    """Return whether an expression reads a local name that is unbound on some path to it."""
    statement = statement_of(scope, value)
    read = {node.id for node in walk(value) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return any(not is_bound_before(scope, name, statement) for name in read & scope.function.locals)


def _always_binds(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.Assign):
        return any(_has_target(target, name) for target in statement.targets)
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None and _has_target(statement.target, name)
    if isinstance(statement, ast.AugAssign):
        return _has_target(statement.target, name)
    if isinstance(statement, ast.If) and statement.orelse:
        return all(
            isinstance(block[-1], ast.Raise | ast.Return | ast.Continue | ast.Break)
            or any(_always_binds(one, name) for one in block)
            for block in (statement.body, statement.orelse)
        )
    if isinstance(statement, ast.With):
        return any(_always_binds(one, name) for one in statement.body)
    return False


def _has_target(target: ast.expr, name: str) -> bool:
    if isinstance(target, ast.Name):
        return target.id == name
    if isinstance(target, ast.Tuple | ast.List):
        return any(_has_target(element, name) for element in target.elts)
    return isinstance(target, ast.Starred) and _has_target(target.value, name)


def last_assignment(scope: Scope, name: str, at: ast.AST) -> ast.Assign | None:
    """Return the nearest assignment to `name` before `at`, as in `last_value`, if it has no other target."""
    made, _ = last_value(scope, name, at) or (None, None)
    return made if isinstance(made, ast.Assign) and is_named(made.targets[0], name) else None


def last_value(
    scope: Scope, name: str, at: ast.AST, *, before_loop: bool = False
) -> tuple[ast.Assign | ast.AnnAssign, ast.expr] | None:
    """Return the nearest assignment to `name` before `at`, in the same block or one around it, and its value.

    The search does not leave a loop. The assignment has `name` as its only target, or assigns as many values as it has
    names. If `before_loop` is true, `at` is a loop, and the search starts before it.
    """
    current = at
    loops = (ast.For, ast.AsyncFor, ast.While)
    while current is not scope.function.node and (not isinstance(current, loops) or (before_loop and current is at)):
        parent = scope.parents.get(current)
        if parent is None:
            return None
        for one in reversed(around(scope.parents, current)[0]):
            value = value_for(one, name)
            if isinstance(one, ast.Assign | ast.AnnAssign) and value is not None:
                return one, value
        current = parent
    return None


def value_for(statement: ast.stmt, name: str) -> ast.expr | None:
    """Return the value that an assignment gives to a name, also for `a, b = one, other`."""
    if isinstance(statement, ast.AnnAssign):
        return statement.value if is_named(statement.target, name) else None
    if not isinstance(statement, ast.Assign) or len(statement.targets) > 1:
        return None
    target, value = statement.targets[0], statement.value
    if is_named(target, name):
        return value
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
        return None
    starred = any(isinstance(one, ast.Starred) for one in [*target.elts, *value.elts])
    given = [one for place, one in zip(target.elts, value.elts, strict=False) if is_named(place, name)]
    return given[0] if len(given) == 1 and not starred else None


def is_named(node: ast.AST, name: str) -> TypeGuard[ast.expr | ast.pattern | ast.excepthandler]:
    """Return whether a node reads or binds `name`."""
    if isinstance(node, ast.Name):
        return node.id == name
    return isinstance(node, ast.MatchAs | ast.MatchStar | ast.ExceptHandler) and node.name == name


def end_of(node: ast.AST) -> tuple[int, int]:
    """Return the line and column where a statement or expression ends."""
    assert isinstance(node, ast.stmt | ast.expr)
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def only_value(scope: Scope, name: str, outside: ast.AST) -> ast.expr | None:
    """Return the only value of a local name, or None if it is a parameter or has more than one value.

    Assignments inside `outside` do not count.
    """
    inside = nodes_in(outside)
    found = list(islice((node for node in stores(scope, name) if node not in inside), 2))
    if len(found) != 1 or name in parameters(scope):
        return None
    parent = scope.parents.get(found[0])
    return parent.value if isinstance(parent, ast.Assign) and parent.targets == found else None


def own_reads(scope: Scope, statement: ast.stmt, target: ast.Name) -> list[ast.Name] | None:
    """Return the reads of a local name that see the value from `statement` and no other, or None if they are mixed.

    They are all reads if this is the name's only value, the reads after the statement if other values come before it or
    are assigned anew where they are read, or the reads up to the next statement of the same block that assigns the
    name.
    """
    name, reads = target.id, list(loads(scope, target.id))
    bound = (one for one in named(scope, name) if not (isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)))
    other = [one for one in bound if one is not target]
    if not other and name not in parameters(scope):
        return reads
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return None
    replaced = _replaced(scope, statement, name)
    if replaced is not None:
        return [one for one in reads if end_of(statement) <= _place(one) < end_of(replaced)]
    return _last_reads(scope, statement, reads)


def _replaced(scope: Scope, statement: ast.stmt, name: str) -> ast.stmt | None:
    """Return the next statement in the block that assigns a name, or None if the name may keep its value beyond it."""
    if any(isinstance(outer, ast.Try) for outer in lineage(scope, statement)):
        return None
    for one in around(scope.parents, statement)[1]:
        if isinstance(one, ast.Assign | ast.AnnAssign) and _always_binds(one, name):
            return one
        if sets(one, name) or any(isinstance(node, ast.Break | ast.Continue) for node in walk(one)):
            return None
    return None


def _last_reads(scope: Scope, statement: ast.Assign | ast.AnnAssign, reads: list[ast.Name]) -> list[ast.Name] | None:
    """Return the reads in the rest of a statement's block.

    The result is None if they may see other values, or if other reads may see the statement's value.
    """
    before, after = around(scope.parents, statement)
    rest = frozenset[ast.AST]().union(*map(nodes_in, after))
    own = [one for one in reads if one in rest]
    others = [one for one in reads if one not in rest and not _sees_another(scope, statement, one)]
    name = reads[0].id if reads else ""
    if any(sets(one, name) for one in after) or any(_place(one) >= end_of(statement) for one in others):
        return None
    loop = next((one for one in reversed(list(lineage(scope, statement))) if isinstance(one, _LOOPS)), None)
    if loop is None:
        return own
    first = next(one for one in [*before, statement] if one is statement or _always_binds(one, name))
    carried = (one for one in others if _place(one) < end_of(first))
    return None if any(within(one, loop, scope) for one in carried) else own


def _sees_another(scope: Scope, statement: ast.stmt, read: ast.Name) -> bool:
    """Return whether the last assignment before a read, without leaving a loop, comes after or before a statement.

    If it comes before, the statement does not stand in between.
    """
    made, _ = last_value(scope, read.id, read) or (statement, None)
    between = _place(made) < _place(statement) < _place(read)
    return made is not statement and not between


def _place(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def is_settled(scope: Scope, name: str, node: ast.expr | ast.stmt) -> bool:
    """Return whether a name keeps its value from `node` on, because nothing in the function assigns to it later."""
    if has_one_value(scope, name):
        return True
    start = (node.lineno, node.col_offset)
    later = any((one.lineno, one.col_offset) > start for one in stores(scope, name))
    around = any(isinstance(one, ast.For | ast.AsyncFor | ast.While) for one in lineage(scope, node))
    return name in scope.function.locals and not later and not around


def has_one_value(scope: Scope, name: str) -> bool:
    """Return whether a local name or parameter has a single value in the whole function."""
    found = [one for one in names(scope, name) if not isinstance(one.ctx, ast.Load)]
    return name in scope.function.locals and len(found) + (name in parameters(scope)) == 1


def is_shared(scope: Scope, name: str) -> bool:
    """Return whether a name is declared as `global` or `nonlocal`."""
    known = scope.function.known
    if is_shared not in known:
        walked = walk(scope.function.node)
        known[is_shared] = {one for node in walked if isinstance(node, ast.Global | ast.Nonlocal) for one in node.names}
    return name in known[is_shared]
