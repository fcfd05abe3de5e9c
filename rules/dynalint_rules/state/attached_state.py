"""DYN510: tensor state that keeps the autograd graph of the call that computed it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from dynalint.rulekit import (
    FunctionInfo,
    InplaceChange,
    Project,
    Rule,
    StateChange,
    Violation,
    k,
    walk,
    walk_function,
)
from dynalint_rules._code.autograd import keeps_graph, without_gradients
from dynalint_rules._code.changes import names, reached_functions, related, sets_elsewhere, state_name

_HOMES = frozenset({"attribute", "global", "class"})


class AttachedState(Rule):
    code = "DYN510"
    name = "attached-state"
    summary = "The second training step of compiled code fails because tensor state is not detached"
    category = "miscompile"
    severity = "warning"
    events = (StateChange, InplaceChange)
    refusal = "other code may compute gradients through the state; if none does, store it with `.detach()`"

    def check(self, event: StateChange | InplaceChange, project: Project) -> Iterable[Violation]:
        """Flag state that accumulates values with gradients, if nothing else in the region reads it."""
        if event.home.type not in _HOMES or not _accumulates(event):
            return
        name, values = state_name(event), _values(event)
        if (
            values
            and keeps_graph(event.statement, values, event.function, name, project)
            and not sets_elsewhere(event, project)
            and not _is_wrapped(event.function, project)
            and not _is_read(event, project)
        ):
            yield Violation(
                event.statement,
                f"`{event.home.name}` keeps the autograd graph of every call, so the second training step fails "
                "in compiled code",
                help="Store the value with `.detach()`.",
            )


def _accumulates(event: StateChange | InplaceChange) -> bool:
    """Return whether tensor state is computed from its old value. For `+=`, only the store event counts."""
    if isinstance(event, InplaceChange):
        return event.method.endswith("_") and not (
            isinstance(event.tensor, k.Tensor) and event.tensor.origin == "parameter"
        )
    return event.reads_old and not event.fresh and k.only_tensor(event.new) is not None


def _values(event: StateChange | InplaceChange) -> list[ast.expr]:
    """Return the stored values: an assignment's right-hand side, or the arguments of chained in-place methods."""
    statement = event.statement
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
        return [statement.value] if statement.value is not None else []
    if not isinstance(statement, ast.Expr):
        return []
    values: list[ast.expr] = []
    node = statement.value
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        values += [*node.args, *(keyword.value for keyword in node.keywords)]
        node = node.func.value
    return values


def _is_wrapped(function: FunctionInfo, project: Project) -> bool:
    """Return whether the class wraps a method, as in `self.update = wrap(self.update)`. This may disable gradients."""
    return function.owner is not None and any(function.name in cls.writers for cls in project.mro(function.owner))


def _is_read(event: StateChange | InplaceChange, project: Project) -> bool:
    """Return whether the region reads the state with its gradient for anything other than updating it."""
    name = state_name(event)
    for function in reached_functions(project, name):
        if not related(function.owner, event.function.owner, project):
            continue
        parents = project.parents(function)
        own = set(walk(event.statement)) if function is event.function else set()
        reads = (
            node
            for node in walk_function(function.node)
            if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load) and names(node, name)
        )
        if any(node not in own and not _is_cut(node, parents) for node in reads):
            return True
    return False


def _is_cut(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether no gradient flows through a read, because of `.detach()` or `torch.no_grad()`."""
    parent = parents.get(node)
    if isinstance(parent, ast.Attribute) and parent.attr in ("detach", "data", "shape", "dtype", "device"):
        return True
    while parent is not None:
        if isinstance(parent, ast.With) and without_gradients(parent):
            return True
        parent = parents.get(parent)
    return False
