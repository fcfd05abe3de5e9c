"""Which names may share a tensor's memory."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from dynalint.rulekit import k, walk_function
from dynalint_rules._code.memory import changes_in_place, makes_tensor, may_run_after
from dynalint_rules._code.names import is_named, parameters
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.size_arguments import callee_name, sizes


def may_change_in_place(scope: Scope, name: str, after: ast.expr | None = None) -> bool:
    """Return whether the tensor called `name` is changed in place in the function, under any name.

    If `after` is given, only changes that may run after this expression count.
    """
    changes = (change for one in sharing(scope, name) for change in changes_in_place(scope, one))
    return any(after is None or may_run_after(scope, change, after) for change in changes)


def sharing(scope: Scope, name: str) -> set[str]:
    """Return the names that may share memory with a tensor called `name`, or contain it, including `name`."""
    known = scope.function.known
    if sharing not in known:
        known[sharing] = _origins(scope)
    origins: dict[str, set[object]] = known[sharing]
    own = origins.get(name, {name})
    return {name, *(other for other, found in origins.items() if not found.isdisjoint(own))}


def _origins(scope: Scope) -> dict[str, set[object]]:
    """Return for each name what its tensors may come from: names that nothing binds, and assignments of new tensors.

    A name that has one tensor and then another does not connect the two.
    """
    bindings = list(_bindings(scope))
    bound = {target for target, _, kept, stored in bindings if not stored}
    origins = defaultdict[str, set[object]](set)
    for target, node, kept, stored in bindings:
        origins[target] |= set() if kept or stored else {node}
        for one in (*kept, target):
            origins[one] |= {one} if one not in bound or one in parameters(scope) else set()
    before = -1
    while before < (before := sum(map(len, origins.values()))):
        for target, _, kept, stored in bindings:
            new = set().union(*(origins[one] for one in kept))
            # What is stored in an object is also in the other names of the object.
            held = [one for one in origins if not origins[one].isdisjoint(origins[target])] if stored else [target]
            for one in held:
                origins[one] |= new
    return dict(origins)


def _bindings(scope: Scope) -> Iterator[tuple[str, ast.AST, list[str], bool]]:
    """Yield the names that assignments bind, or store into, each with the names whose tensors they pass on to it."""
    for node in walk_function(scope.function.node):
        if not isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) or node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            for part, value in _paired(target, node.value):
                kept = list(kept_in(scope, value))
                for one in _bound_by(part):
                    yield one, node, kept, not _binds(part, one)


def _paired(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield a target with its value, or for `a, b = x, y` each item of the target with its own value."""
    items = [one.elts if isinstance(one, ast.Tuple | ast.List) else [] for one in (target, value)]
    starred = any(isinstance(one, ast.Starred) for part in items for one in part)
    if items[0] and len(items[0]) == len(items[1]) and not starred:
        for pair in zip(*items, strict=True):
            yield from _paired(*pair)
    else:
        yield target, value


def _binds(target: ast.expr, name: str) -> bool:
    """Return whether a target binds a name itself, as opposed to storing into its object."""
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    return any(is_named(one.value if isinstance(one, ast.Starred) else one, name) for one in parts)


def _bound_by(target: ast.AST) -> Iterator[str]:
    """Yield the names that a target binds or stores into. Names in an index do not count."""
    if isinstance(target, ast.Name):
        yield target.id
    for child in [target.value] if isinstance(target, ast.Subscript) else ast.iter_child_nodes(target):
        yield from _bound_by(child)


def kept_in(scope: Scope, value: ast.expr) -> Iterator[str]:
    """Yield the names whose tensors an expression passes on, directly or as views. Names in an index do not count."""
    if isinstance(value, ast.Name):
        if not k.is_number(scope.kind(value)) and not isinstance(scope.kind(value), k.Module | k.External):
            yield value.id
    elif not makes_tensor(scope, value):
        numbers = set(sizes(callee_name(scope.kind(value.func)), value)) if isinstance(value, ast.Call) else ()
        for child in [value.value] if isinstance(value, ast.Subscript) else ast.iter_child_nodes(value):
            if isinstance(child, ast.expr) and child not in numbers:
                yield from kept_in(scope, child)
