"""Reads through a mask, as in `x[mask]`."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from dynalint.rulekit import Call, Refusal, Subscript, is_mask, k, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.names import lineage, only_value
from dynalint_rules._code.scope import Scope

_COUNTING = frozenset({"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive"})


@dataclass(frozen=True)
class Selection:
    """A `node` that selects the elements of `source` where `mask` is true."""

    node: ast.expr
    source: ast.expr
    mask: ast.expr


def selection_of(node: ast.Subscript | ast.Call) -> Selection | None:
    """Return the selection made by `x[mask]`, `x.masked_select(mask)` or `torch.masked_select(x, mask)`."""
    if isinstance(node, ast.Subscript):
        return Selection(node, node.value, node.slice)
    if node.keywords or not isinstance(node.func, ast.Attribute):
        return None
    if len(node.args) == 2:
        return Selection(node, *node.args)
    return Selection(node, node.func.value, node.args[0]) if len(node.args) == 1 else None


def reads_by_mask(event: Subscript) -> bool:
    """Return whether `event` selects elements of a tensor with a bool tensor."""
    taken_from = k.only_tensor(event.base) is not None or isinstance(event.base, k.Unknown)
    return event.context == "load" and taken_from and is_mask(event.index)


def refuse_other_breaks(scope: Scope, values: Iterable[ast.expr], around: ast.stmt) -> None:
    """Ensure that no value selects a number of elements that depends on data, which would still break the graph.

    A loop around the statement that computes them must not run once for each of such elements either.

    Raises:
        Refusal: If there is another break.
    """
    refuse_counted_loops(scope, around)
    for value in values:
        if (found := selected_in(scope, value)) is not None:
            raise Refusal(
                f"{scope.quote(found)} in a branch has a size that depends on data, which also breaks the graph; "
                "rewrite it first"
            )


def selected_in(scope: Scope, value: ast.expr) -> ast.expr | None:
    """Return a part of an expression whose size depends on data, or None if there is none."""
    for node in walk(value):
        if isinstance(node, ast.Subscript):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            selects = isinstance(node.ctx, ast.Load) and any(is_mask(scope.kind(one)) for one in parts)
            taken = selects and scope.tensor(node.value) is not None
        else:
            taken = isinstance(node, ast.Call) and _counts(scope, node)
        if taken and isinstance(node, ast.expr):
            return node
    return None


def refuse_counted_loops(scope: Scope, node: ast.AST) -> None:
    """Ensure that no loop around a node runs once for each of the elements that a mask selects.

    Raises:
        Refusal: If one does, because it breaks the graph anyway.
    """
    for loop in (part for one in lineage(scope, node) for part in (one, *getattr(one, "generators", ()))):
        over = loop.iter if isinstance(loop, ast.For | ast.comprehension) else None
        if isinstance(over, ast.Call) and callee(scope, over) == "builtins.enumerate" and over.args:
            over = over.args[0]
        value = only_value(scope, over.id, over) if isinstance(over, ast.Name) else over
        if over is not None and isinstance(value, ast.Call) and _counts(scope, value):
            raise Refusal(
                f"the loop over {scope.quote(over)} runs a data-dependent number of times, which breaks the graph; "
                "run it a fixed number of times"
            )


def _counts(scope: Scope, node: ast.Call) -> bool:
    """Return whether the size of a call's result is a count of elements with some property."""
    name = callee(scope, node)
    if name == "torch.where":
        return len(node.args) == 1 and not node.keywords
    return name.startswith(("torch.", "Tensor.")) and name.rpartition(".")[2] in _COUNTING


def is_selected(scope: Scope, node: ast.expr) -> bool:
    """Return whether a value is computed from a selection with a bool tensor, as far as names in the function show."""
    waiting, known = [node], set[str]()
    for one in waiting:
        if isinstance(one, ast.Subscript) and is_mask(scope.kind(one.slice)):
            return True
        if isinstance(one, ast.BinOp):
            waiting += [one.left, one.right]
        elif isinstance(one, ast.UnaryOp):
            waiting.append(one.operand)
        elif isinstance(one, ast.Name) and one.id not in known:
            known.add(one.id)
            value = only_value(scope, one.id, one)
            waiting += [value] if value is not None else []
    return False


def source_of(scope: Scope, node: ast.AST, mask: ast.expr) -> ast.expr | None:
    """Return the tensor from which an expression selects the elements of a mask, or None for any other expression."""
    if isinstance(node, ast.Call):
        callee = scope.kind(node.func)
        name = callee.name if isinstance(callee, k.Method | k.External) else ""
        if name not in ("masked_select", "torch.masked_select"):
            return None
    found = selection_of(node) if isinstance(node, ast.Subscript | ast.Call) else None
    return found.source if found is not None and ast.dump(found.mask) == ast.dump(mask) else None


def target_of(event: Subscript | Call) -> ast.Subscript | None:
    """Return the `x[mask]` to which a read's statement stores through the same mask, or None."""
    statement = event.statement
    if isinstance(statement, ast.AugAssign):
        target: ast.expr = statement.target
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    else:
        return None
    found = selection_of(event.node)
    same = isinstance(target, ast.Subscript) and found is not None and ast.dump(target.slice) == ast.dump(found.mask)
    return target if same and isinstance(target, ast.Subscript) else None
