"""DYN806: a mask that selects a different number of elements on each call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from dynalint.rulekit import FunctionNode, Project, Refusal, Rule, Subscript, k, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.selection import reads_by_mask
from dynalint_rules._code.settings import captures_shapes

_DRAWING = frozenset(
    [f"torch.{name}" for name in "rand randn randint bernoulli normal rand_like randn_like randint_like".split()]
    + [f"Tensor.{name}" for name in "bernoulli bernoulli_ uniform_ normal_ random_ exponential_".split()]
)
# A function that does not contain any of these names does not draw random numbers, so it is not searched further.
_DRAWN = re.compile("|".join(sorted({re.escape(name.rpartition(".")[2]) for name in _DRAWING})))
# A mask computed with these functions selects the same number of elements each time.
_COUNTED = frozenset({"topk", "kthvalue", "sort", "argsort", "quantile", "median", "randperm", "arange"})
# Functions that create a tensor with the shape of another tensor, without reading its data.
_MADE_LIKE = re.compile(r"_like$|(^|\.)new_")
# What only sparse tensors have.
_PARTS = frozenset({"_indices", "_values", "_nnz", "coalesce"})
_COMPUTING = (ast.BinOp, ast.Call, ast.Compare, ast.Subscript, ast.UnaryOp)


class VaryingSelection(Rule):
    code = "DYN806"
    name = "varying-selection"
    summary = "A mask selects a different number of elements on each call, so the code after it recompiles"
    category = "recompile"
    severity = "info"
    events = (Subscript,)
    message = (
        "this random mask selects a different number of elements on each call, so the code after it recompiles once, "
        "with a dynamic size"
    )
    help = "Keep the full shape with `torch.where`, or select a fixed number of elements with `torch.randperm`."

    def flags(self, event: Subscript, project: Project) -> bool:
        """Flag reads through a mask that the function draws at random."""
        if not reads_by_mask(event) or event.position.loop or event.position.try_ or _is_of_sparse(event):
            return False
        return not captures_shapes(project, event.function) and _is_drawn(event, project) and _is_used(event, project)


def _is_used(event: Subscript, project: Project) -> bool:
    """Return whether a tensor operation in the function uses the selected elements."""
    if isinstance(event.statement, ast.AugAssign):
        return True
    parents, kinds = project.parents(event.function), project.kinds(event.function)
    node: ast.AST = event.node
    while isinstance(outer := parents.get(node), ast.expr | ast.keyword):
        if isinstance(outer, _COMPUTING):
            return k.only_tensor(kinds.get(outer, k.UNKNOWN)) is not None
        node = outer
    names = {one.id for one in outer.targets if isinstance(one, ast.Name)} if isinstance(outer, ast.Assign) else set()
    return any(
        isinstance(one, _COMPUTING)
        and one.lineno > event.statement.lineno
        and k.only_tensor(kinds.get(one, k.UNKNOWN)) is not None
        and any(isinstance(part, ast.Name) and part.id in names for part in walk(one))
        for one in walk(event.function.node)
    )


def _is_of_sparse(event: Subscript) -> bool:
    """Return whether a function reads the parts of a sparse tensor, so that Dynamo does not compile it."""
    return any(isinstance(one, ast.Attribute) and one.attr in _PARTS for one in walk(event.function.node))


def _is_drawn(event: Subscript, project: Project) -> bool:
    """Return whether a mask is random and the number of elements that it selects varies."""
    node = event.function.node
    if not any(map(_DRAWN.search, event.function.file.lines[node.lineno - 1 : node.end_lineno])):
        return False
    calls = _behind_mask(event, project)
    return bool(calls & _DRAWING) and not _is_counted(calls)


def _behind_mask(event: Subscript, project: Project) -> set[str]:
    """Return the dotted names of the calls that compute a mask. If they are unknown, there are none."""
    try:
        scope = Scope.of(event, project)
        found = list(_behind(scope, event.node.slice, set(), _assigned(event.function.node)))
    except Refusal:
        return set()
    return {_called(scope, one) for one in found}


def _is_counted(calls: Iterable[str]) -> bool:
    return any(name.rpartition(".")[2] in _COUNTED for name in calls)


def _behind(scope: Scope, node: ast.AST, seen: set[str], assigned: Mapping[str, list[ast.expr]]) -> Iterator[ast.Call]:
    """Yield the calls that compute an expression's data, either directly or via local names.

    The arguments of a size, a device or a plain number are left out, and so are the arguments of `zeros_like` and
    similar functions, because none of these depends on the tensor's data.
    """
    kind = scope.kind(node) if isinstance(node, ast.expr) else None
    if isinstance(kind, k.Value) and kind.source != "data":
        return
    if isinstance(node, ast.Call):
        yield node
        if _MADE_LIKE.search(_called(scope, node)):
            return
    elif isinstance(node, ast.Name) and node.id not in seen:
        seen.add(node.id)
        for value in assigned.get(node.id, ()):
            yield from _behind(scope, value, seen, assigned)
    for child in ast.iter_child_nodes(node):
        yield from _behind(scope, child, seen, assigned)


def _called(scope: Scope, node: ast.Call) -> str:
    """Return the called function's dotted name, or the last part of it."""
    return callee(scope, node) or (node.func.attr if isinstance(node.func, ast.Attribute) else "")


def _assigned(function: FunctionNode) -> Mapping[str, list[ast.expr]]:
    """Return the values that are assigned to each local name in a function."""
    found: dict[str, list[ast.expr]] = {}
    for node in (one for one in walk(function) if isinstance(one, ast.Assign)):
        for target in (one for one in node.targets if isinstance(one, ast.Name)):
            found.setdefault(target.id, []).append(node.value)
    return found
