"""DYN301: reading the elements of a tensor that a mask selects."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Project, Refusal, Rewrite, Rule, Subscript, Violation, k, quote, rw
from dynalint_rules._code.counts import count_of
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.names import around
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.selection import reads_by_mask, selection_of, target_of
from dynalint_rules._code.settings import SHAPES, captures_shapes
from dynalint_rules._shared.mask.diagonals import by_diagonal
from dynalint_rules._shared.mask.extremes import rewrite_extreme
from dynalint_rules._shared.mask.hardest import mean_of_hardest
from dynalint_rules._shared.mask.joined_stores import stored, stored_next
from dynalint_rules._shared.mask.masked_stores import put_back
from dynalint_rules._shared.mask.selected_totals import reduced_at_last
from dynalint_rules._shared.number.numbers import flow_of

_SELECTING = frozenset({"torch.masked_select", "Tensor.masked_select"})
_DECLINED = (
    "the number of selected elements depends on data; keep the full shape and use `torch.where` with a neutral "
    "value for the other elements, or set `torch._dynamo.config.capture_dynamic_output_shape_ops = True`"
)


class MaskRead(Rule):
    code = "DYN301"
    name = "mask-read"
    summary = "The number of elements that a mask selects depends on data, which breaks the graph"
    severity = "warning"
    gb = ("GB0036", "GB0033")
    reads_data = True
    events = (Subscript, Call)
    calls = _SELECTING

    def check(self, event: Subscript | Call, project: Project) -> Iterable[Violation]:
        """Flag reads through a mask, unless the same statement stores through that mask."""
        if captures_shapes(project, event.function):
            return
        if isinstance(event, Subscript):
            if not reads_by_mask(event) or target_of(event) is not None:
                return
        elif not isinstance(event, Call) or event.callee not in _SELECTING:
            return
        yield Violation(
            event.node,
            f"the number of elements in {quote(event.function.file, event.node)} depends on the data in the "
            "mask, which breaks the graph",
            help="keep the full shape and select with `torch.where(mask, x, neutral)`",
            setting=_setting(event, project),
        )

    def fix(self, event: Subscript | Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Reduce over the full shape, with zeros instead of the elements that are not selected."""
        scope, selection = Scope.of(event, project), selection_of(event.node)
        rewrite = None
        if isinstance(event, Subscript):
            rewrite = stored_next(scope, event) or put_back(scope, event) or _counted(scope, event)
        elif target_of(event) is not None:
            rewrite = stored(scope, event)
        if rewrite is None and selection is not None:
            rewrite = by_diagonal(scope, selection) or rewrite_extreme(scope, selection)
            rewrite = rewrite or _chosen_with(scope, event.statement)
            rewrite = rewrite or reduced_at_last(scope, selection)
        if rewrite is not None:
            return rewrite
        return Declined(_DECLINED)


def _setting(event: Subscript | Call, project: Project) -> str:
    """Return the setting with which Dynamo traces the read, or "" if the mask has no dimensions or is only counted."""
    mask = k.only_tensor(event.index) if isinstance(event, Subscript) else None
    counted = count_of(Scope.of(event, project), event.node) is not None
    return "" if counted or (mask is not None and mask.rank == 0) else SHAPES


def _chosen_with(scope: Scope, statement: ast.stmt) -> Rewrite | None:
    """Return the rewrite of the `if` around a statement or after it that decides which elements are averaged."""
    following = next(iter(around(scope.parents, statement)[1]), None)
    inside = scope.parents.get(statement)
    return mean_of_hardest(scope, inside) or mean_of_hardest(scope, following)


def _counted(scope: Scope, event: Subscript) -> Rewrite | None:
    """Return the rewrite of `x[mask].numel()` and similar code, or None if the code uses the elements."""
    node, mask = event.node, scope.tensor(event.node.slice)
    asked = count_of(scope, node)
    if asked is None or mask is None:
        return None
    for part in (node.value, node.slice):
        if not is_pure(scope, part):
            raise Refusal(f"{scope.quote(part)} does more than return a value; assign the value to a variable first")
    flow = flow_of(scope, asked.node, "int", wide=True)
    tensor = scope.tensor(node.value)
    if asked.elements and (tensor is None or mask.rank is None or mask.rank != tensor.rank):
        flow.conditions[f"the mask {scope.quote(node.slice)} has as many dimensions as {scope.quote(node.value)}"] = (
            None
        )
    edits = rw.written(scope.file, (asked.node, rw.method(rw.kept(scope.file, node.slice), "sum")), *flow.edits)
    title = "Count the mask's true elements"
    return Rewrite(title, flow.safety, edits, flow.clauses, imports=flow.imports, leaves=flow.leaves)
