"""What compiled code adds to a container that none of it reads: a record, which eager code can keep by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from dynalint.rulekit import ContainerChange, FunctionInfo, Project, Refusal, Rewrite, StateChange, rw, walk
from dynalint_rules._code.growth import mentions_of
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.guard.statements import check_left_out, guarded_all

_ADDING = frozenset({"append", "appendleft", "extend", "extendleft", "insert"})


def recorded_in_eager(event: ContainerChange | StateChange, project: Project) -> Rewrite:
    """Return the rewrite that adds to the container in eager code only.

    Raises:
        Refusal: compiled code reads the container, or adding to it does something else besides.
    """
    name = event.home.name
    for function, place in _reads(event, project):
        where = f"{function.file.path.name}:{place.lineno}"
        raise Refusal(
            f"{where} reads `{name}` in compiled code, where it has to be complete; return what is added and "
            "let the caller collect it, or keep a tensor of fixed size in a buffer"
        )
    scope = Scope.of(event, project)
    title, conditions = f"Add to `{name}` only in eager code", (f"a compiled run adds nothing to `{name}`",)
    body = scope.function.node.body
    if isinstance(body, ast.expr):
        check_left_out(scope, _parts(scope, body))
        # Adding gives None, and so the lambda goes on giving None.
        new = f"None if {scope.torch}.compiler.is_compiling() else {scope.text(body)}"
        return Rewrite(title, "unsafe", rw.written(scope.file, (body, new)), conditions, scope.imports)
    check_left_out(scope, _parts(scope, event.statement))
    return guarded_all(scope, [event.statement], title, "unsafe", conditions)


def _parts(scope: Scope, node: ast.stmt | ast.expr) -> list[ast.expr]:
    """Return the expressions that are evaluated for adding to a container.

    Raises:
        Refusal: the node does something else.
    """
    value = node.value if isinstance(node, ast.Expr) else node
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _ADDING:
        parts = [*value.args, *(keyword.value for keyword in value.keywords)]
        owner = value.func.value
        if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute) and owner.func.attr == "setdefault":
            return [*parts, *owner.args, owner.func.value]
        return [*parts, owner]
    if isinstance(node, ast.AugAssign):
        return [node.value]
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        return [node.value, target.slice] if isinstance(target, ast.Subscript) else [node.value]
    raise Refusal(f"{scope.quote(node)} does more than add to a container; make that a separate statement")


def _reads(event: ContainerChange | StateChange, project: Project) -> Iterator[tuple[FunctionInfo, ast.expr]]:
    """Yield the places of compiled code that may ask for what is in the container."""
    own = set(walk(event.statement))
    for function, place in mentions_of(event, project):
        in_eager = isinstance(place.ctx, ast.Load) and place not in project.kinds(function)
        if place not in own and not in_eager and not _adds(place, project.parents(function)):
            yield function, place


def _adds(place: ast.Attribute | ast.Name, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Whether a mention of a container stands there only for something to be added, or to be stored under a key."""
    node: ast.AST | None = place
    while node is not None:
        parent = parents.get(node)
        if isinstance(parent, ast.Attribute):
            call = parents.get(parent)
            if parent.attr in _ADDING:
                return isinstance(call, ast.Call) and isinstance(parents.get(call), ast.Expr | ast.Lambda)
            node = call if parent.attr == "setdefault" else None
        elif isinstance(parent, ast.Subscript) and parent.value is node:
            node = parent
        else:
            return isinstance(getattr(node, "ctx", None), ast.Store)
    return False
