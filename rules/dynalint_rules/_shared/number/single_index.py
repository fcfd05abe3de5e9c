"""Add a dimension to a 0-dim index tensor, so that torch does not have to read its value."""

from __future__ import annotations

import ast

from dynalint.rulekit import Refusal, rw
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.number.flow import is_whole


def with_a_dimension(scope: Scope, node: ast.Subscript, index: ast.expr) -> tuple[list[rw.Change], str]:
    """Return the changes from `x[i]` to `x[i.reshape(1)].squeeze(0)`, and the condition for them.

    Raises:
        Refusal: If another index is neither a slice nor an int that Dynamo knows.
    """
    parts = parts_of(node)
    others = [part for part in parts if part is not index and not isinstance(part, ast.Slice)]
    if not all(is_whole(scope.kind(part)) for part in others):
        raise Refusal(
            f"{scope.quote(index)} is combined with other indices; index in separate steps, with this index alone"
        )
    changes: list[rw.Change] = [(index, rw.calling("reshape", rw.number(1)))]
    if isinstance(node.ctx, ast.Load):
        # Indexing with an integer removes the dimension.
        place = sum(isinstance(part, ast.Slice) for part in parts[: parts.index(index)])
        changes.append((node, rw.calling("squeeze", rw.number(place))))
    condition = f"nothing modifies {scope.quote(node)} in place, or {scope.quote(node.value)} while it is used"
    return changes, condition


def parts_of(node: ast.Subscript) -> list[ast.expr]:
    """Return a subscript's indices, one for each dimension."""
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
