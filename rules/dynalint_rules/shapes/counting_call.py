"""DYN303: functions whose result has a data-dependent size."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Project, Rewrite, Rule, Violation, k, rw, torch_api
from dynalint_rules._code.counts import count_of
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.settings import SHAPES, captures_shapes
from dynalint_rules._shared.mask.bins import counted_in_bins
from dynalint_rules._shared.mask.mask_indices import listed_tensor, masked_instead
from dynalint_rules._shared.number.numbers import flow_of

# Another rule flags reads through a mask. Dynamo never traces `unpad_sequence`, regardless of its result's shape.
_ELSEWHERE = ("__getitem__", "masked_select", "unpad_sequence")
# NumPy functions that Dynamo traces as torch functions, even for lists of numbers. All of them were run with Dynamo.
_NUMPY = frozenset(f"numpy.{name}" for name in ("unique", "nonzero", "flatnonzero", "argwhere", "bincount"))
_NUMPY_WHERE = "numpy.where"
_NUMPY_REPEAT = "numpy.repeat"

_HELP = {
    "nonzero": "use the mask itself, with `mask.sum()` to count and `torch.where(mask, a, b)` to select",
    "argwhere": "use the mask itself, with `mask.sum()` to count and `torch.where(mask, a, b)` to select",
    "where": "pass `torch.where` the two values to select from, or work with the mask itself",
    "flatnonzero": "use the mask itself, with `mask.sum()` to count and `torch.where(mask, a, b)` to select",
    "repeat_interleave": "pass `output_size=`, if the sum of the repeats is known as a Python number",
    "repeat": "repeat by a single number, or gather rows with a precomputed index",
    "bincount": "sum `one_hot(t, n)` over its first dimension, or `scatter_add_` ones into `n` zeros",
    "combinations": "index with `torch.triu_indices(n, n, 1)`, which only depends on a shape",
}
_HELP_ELSE = "move it out of the compiled code, into the constructor or to where the batch is created"
# No setting makes Dynamo trace these.
_NEVER_TRACED = ("lstsq", "ctc_loss", "CTCLoss", "combinations")
_LISTING = ("Tensor.nonzero", "torch.nonzero", "Tensor.argwhere", "torch.argwhere")


def _watched() -> frozenset[str]:
    """Return the `callee` names of the functions, methods and layers that have the flag."""
    names = set()
    for name in torch_api.flagged("dynamic_shape"):
        owner, _, last = name.rpartition(".")
        if last not in _ELSEWHERE:
            names.add(f"Tensor.{last}" if owner == "torch.Tensor" else name)
            names.add(f"{owner}.__call__" if last == "forward" else name)
    return frozenset(names)


class CountingCall(Rule):
    code = "DYN303"
    name = "counting-call"
    summary = "A function whose output size depends on data breaks the graph"
    severity = "warning"
    gb = ("GB0036",)
    reads_data = True
    events = (Call,)
    calls = _watched() | _NUMPY | {_NUMPY_WHERE, _NUMPY_REPEAT}

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag the call if the shape of its result definitely depends on data."""
        if captures_shapes(project, event.function) or not _counts(event):
            return
        owner, _, last = event.callee.rpartition(".")
        last = owner.rpartition(".")[2] if last == "__call__" else last
        yield Violation(
            event.node,
            f"the output shape of `{last}()` depends on data, which breaks the graph",
            help=_HELP.get(last, _HELP_ELSE),
            setting="" if last in _NEVER_TRACED else SHAPES,
        )

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Count the elements or use the mask. If the list of indices itself is used, there is no fix."""
        if event.callee.endswith(".bincount"):
            return counted_in_bins(Scope.of(event, project), event)
        if event.callee in (*_LISTING, "torch.where"):
            scope = Scope.of(event, project)
            rewrite = _stored_by_mask(scope, event) or _counted(scope, event) or masked_instead(scope, event)
            if rewrite is not None:
                return rewrite
        return Declined(
            "a result whose length depends on data has no general replacement; work with a mask of the full "
            "shape, or set `torch._dynamo.config.capture_dynamic_output_shape_ops = True`"
        )


def _counts(event: Call) -> bool:
    """Return whether the shape of the result definitely depends on data."""
    given = len(event.args) + len(event.keywords)
    starred = len(event.node.args) + len(event.node.keywords) != given
    if event.callee == _NUMPY_WHERE:
        return given == 1 and not starred
    if event.callee == _NUMPY_REPEAT:
        repeats = event.args[1] if len(event.args) > 1 else event.keywords.get("repeats", k.UNKNOWN)
        return k.only_tensor(repeats) is not None or isinstance(repeats, k.Sequence)
    if event.callee in _NUMPY:
        return not (event.args and k.is_number(event.args[0]))  # the result for a number is a constant
    return "dynamic_shape" in event.flags


def _counted(scope: Scope, event: Call) -> Rewrite | None:
    """Return the rewrite of `t.nonzero().shape[0]` and similar code, or None if the code uses the indices."""
    node, asked = event.node, count_of(scope, event.node) if event.callee in _LISTING else None
    method = event.callee.startswith("Tensor.")
    if asked is None or asked.elements or node.keywords or len(node.args) != (0 if method else 1):
        return None
    source = node.func.value if method and isinstance(node.func, ast.Attribute) else node.args[0]
    if scope.tensor(source) is None:
        return None
    flow = flow_of(scope, asked.node, "int", wide=True)
    counted = rw.call(f"{scope.torch}.count_nonzero", rw.kept(scope.file, source))
    title = "Count with `torch.count_nonzero`"
    edits = rw.written(scope.file, (asked.node, counted), *flow.edits)
    return Rewrite(title, flow.safety, edits, flow.clauses, imports=scope.imports, leaves=flow.leaves)


def _stored_by_mask(scope: Scope, event: Call) -> Rewrite | None:
    """Return the rewrite of `x[torch.where(mask)] = 0`, or None if the indices are used in any other way."""
    node, target = event.node, scope.parents[event.node]
    mask, apart = listed_tensor(event)
    statement = scope.parents.get(target)
    if mask is None or not apart or not isinstance(target, ast.Subscript) or target.slice is not node:
        return None
    if not isinstance(statement, ast.Assign) or target not in statement.targets:
        return None
    if scope.dtype(mask) != "bool" or not k.is_number(scope.kind(statement.value)):
        return None
    edits = rw.written(scope.file, (node, rw.kept(scope.file, mask)))
    shown = f"{scope.quote(mask)} has the same size as {scope.quote(target.value)} in each of the mask's dimensions"
    return Rewrite("Index with the mask itself", "conditional", edits, (shown,))
