"""DYN203: a slice with a tensor as a bound."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dynalint.rulekit import (
    Call,
    Declined,
    Event,
    Project,
    Rewrite,
    Rule,
    Subscript,
    Violation,
    index_parts,
    k,
    rw,
)
from dynalint_rules._code.known_numbers import is_stored_number
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.selection import refuse_counted_loops
from dynalint_rules._code.settings import SCALARS, captures_scalars
from dynalint_rules._shared.number.data_slices import fixed_slices
from dynalint_rules._shared.number.halves import between_halves
from dynalint_rules._shared.number.range_loops import over_range
from dynalint_rules._shared.number.row_stores import filled_at_once
from dynalint_rules._shared.number.single_index import parts_of

_NO_FORM = (
    "the length of the result depends on data; keep the whole dimension and mask it with `torch.arange(n) < length` "
    "and a value that does not affect the result"
)


class TensorSliceBound(Rule):
    code = "DYN203"
    name = "tensor-slice-bound"
    summary = "Slicing with a tensor as a bound reads the tensor's value and breaks the graph"
    gb = ("GB0124",)
    gives_up = True
    reads_data = True
    events = (Subscript, Call)
    calls = frozenset({"builtins.slice"})

    def check(self, event: Subscript | Call, project: Project) -> Iterable[Violation]:
        """Flag each bound that is known to be a tensor."""
        bounds = list(_bounds(event))
        if not bounds or captures_scalars(project, event.function):
            return
        tensors = _tensors(event, project)
        # Dynamo reports the break on the first line of the whole expression.
        nodes = [bound if bound.lineno == event.node.lineno else event.node for bound in tensors]
        for node in dict.fromkeys(nodes):
            yield Violation(
                node,
                "slicing with a tensor as a bound reads the tensor's value, which breaks the graph",
                help="keep the whole dimension and mask it with `torch.arange(n) < length`",
                setting="" if isinstance(event, Subscript) and k.only_tensor(event.base) is None else SCALARS,
            )

    def fix(self, event: Subscript | Call, violation: Violation, project: Project) -> Rewrite | Declined:
        """Fill the rows of a tensor all at once, loop over a `range`, or compute the bound from a size.

        There is no fix for other uses, because it is unclear what should replace the missing elements.
        """
        scope = Scope.of(event, project)
        around = scope.parents.get(event.statement)
        rewrite = (
            filled_at_once(scope, around) or over_range(scope, violation.node) or between_halves(scope, violation.node)
        )
        return rewrite or _indexed(scope, event) or Declined(_NO_FORM)


def _indexed(scope: Scope, event: Event) -> Rewrite | None:
    """Return the rewrite of slices that are set to one value, or that read as many elements on every call, or None."""
    if not isinstance(event, Subscript):
        return None
    refuse_counted_loops(scope, event.node)
    bounds = _tensors(event, scope.project)
    slices = [one for one in parts_of(event.node) if isinstance(one, ast.Slice) and {one.lower, one.upper} & {*bounds}]
    found = fixed_slices(scope, event.node, slices)
    if found is None:
        return None
    changes, conditions = found
    unsure = [one for one in bounds if scope.rank(one) is None]
    conditions += [f"{scope.quote(one)} has at most one dimension" for one in unsure]
    stores = isinstance(event.node.ctx, ast.Store)
    title = "Set the elements with a mask" if stores else "Read the elements by an index"
    edits = rw.written(scope.file, *changes)
    return Rewrite(title, "conditional", edits, tuple(dict.fromkeys(conditions)), scope.imports)


def _tensors(event: Event, project: Project) -> list[ast.expr]:
    """Return the bounds that are known to be tensors."""
    if isinstance(event, Subscript) and not any(k.may_be_tensor(part) for part in index_parts(event.index)):
        return []
    kinds = project.kinds(event.function)
    tensors = ((bound, k.only_tensor(kinds.get(bound, k.UNKNOWN))) for bound in _bounds(event))
    return [bound for bound, tensor in tensors if tensor is not None and not is_stored_number(tensor)]


def _bounds(event: Event) -> Iterator[ast.expr]:
    if isinstance(event, Call):
        yield from event.node.args
    elif isinstance(event, Subscript) and not isinstance(event.base, k.Instance):
        index = event.node.slice
        for part in index.elts if isinstance(index, ast.Tuple) else [index]:
            if isinstance(part, ast.Slice):
                yield from (bound for bound in (part.lower, part.upper, part.step) if bound is not None)
