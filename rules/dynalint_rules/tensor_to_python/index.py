"""DYN205: a tensor indexed by a 0-dim tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Declined, Project, Refusal, Rewrite, Rule, Subscript, Violation, index_parts, k, rw
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.selection import refuse_counted_loops
from dynalint_rules._shared.number.listed import rows_at_once
from dynalint_rules._shared.number.range_loops import over_range
from dynalint_rules._shared.number.single_index import parts_of, with_a_dimension


class ScalarTensorIndex(Rule):
    code = "DYN205"
    name = "scalar-tensor-index"
    summary = "Indexing with a 0-dim tensor reads the tensor's value and breaks the graph"
    gb = ("GB0033", "GB0124")
    reads_data = True
    events = (Subscript,)

    def check(self, event: Subscript, project: Project) -> Iterable[Violation]:
        """Flag each index that is known to be a computed 0-dim tensor. A list breaks the graph in the same way."""
        if k.only_tensor(event.base) is None and not _is_argument(event.base):
            return
        if not any(map(_is_number_in_tensor, index_parts(event.index))):
            return
        kinds = project.kinds(event.function)
        for part in parts_of(event.node):
            if _is_number_in_tensor(kinds.get(part, k.UNKNOWN)):
                yield Violation(
                    part,
                    "indexing with a 0-dim tensor reads the tensor's value, which breaks the graph",
                    help="add a dimension to the index and remove it afterwards, as in `x[t.reshape(1)].squeeze(0)`",
                )

    def fix(self, event: Subscript, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Index with a one-dimensional tensor."""
        if not isinstance(violation.node, ast.expr):
            return None
        if _is_argument(event.base):
            raise Refusal("the rewrite depends on whether it is a tensor or a list, which is unknown")
        scope = Scope.of(event, project)
        if (rewrite := rows_at_once(scope, event.node)) is not None:
            return rewrite
        refuse_counted_loops(scope, event.node)
        return over_range(scope, violation.node) or _reshaped(scope, event, violation.node)


def _is_argument(kind: k.Kind) -> bool:
    """Return whether a value is an argument of unknown kind. With a tensor as key, a dict would find nothing."""
    return isinstance(kind, k.Unknown) and kind.parameter is not None


def _is_number_in_tensor(kind: k.Kind) -> bool:
    """Return whether an index is a computed 0-dim tensor other than a mask."""
    tensor = k.only_tensor(kind)
    if tensor is None or tensor.foreseen:
        return False
    return tensor.rank == 0 and tensor.dtype != "bool" and tensor.origin is None


def _reshaped(scope: Scope, event: Subscript, index: ast.expr) -> Rewrite:
    statement = event.statement
    stored = statement.value if isinstance(statement, ast.Assign) and statement.targets == [event.node] else None
    if stored is not None and k.is_number(scope.kind(stored)):
        changes, _ = with_a_dimension(scope, event.node, index)
        # A uint8 tensor would be a mask, and torch does not allow the rewritten assignment to an expanded view.
        conditions = (f"{scope.quote(index)} is not uint8", f"{scope.quote(event.node.value)} is not an expanded view")
        return Rewrite(
            "Index with a one-dimensional tensor", "conditional", rw.written(scope.file, *changes), conditions
        )
    if event.context != "load":
        raise Refusal(
            f"{scope.quote(event.node)} is written to; use `index_fill`, `index_copy` or a mask with `torch.where`"
        )
    changes, condition = with_a_dimension(scope, event.node, index)
    edits = rw.written(scope.file, *changes)
    return Rewrite("Index with a one-dimensional tensor", "conditional", edits, (condition,))
