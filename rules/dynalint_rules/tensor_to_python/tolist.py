"""DYN207: calling `.tolist()` on a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Project, Rewrite, Rule, Violation, k, leads_to_raise
from dynalint_rules._code.known_numbers import is_stored_number
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.settings import SCALARS
from dynalint_rules._shared.number.listed import over_tensor, rows_at_once
from dynalint_rules._shared.number.row_stores import filled_at_once


class TolistOfTensor(Rule):
    code = "DYN207"
    name = "tolist-of-tensor"
    summary = "`.tolist()` reads the elements of a tensor and breaks the graph"
    gb = ("GB0033", "GB0109")
    reads_data = True
    events = (Call,)
    calls = frozenset({"Tensor.tolist", "numpy.ndarray.tolist"})

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag `.tolist()` on a value that is known to be a tensor."""
        if event.receiver is None:
            return
        tensor = k.only_tensor(event.receiver)
        if tensor is None or (tensor.foreseen and tensor.dtype != "float"):
            return
        if is_stored_number(tensor) and tensor.rank == 0 and tensor.dtype != "float":
            return
        if not leads_to_raise(event, project):
            yield Violation(
                event.node,
                "`.tolist()` reads the elements of a tensor into Python, which breaks the graph",
                help="work on the tensor itself, and read it outside the compiled code",
                setting=SCALARS if tensor.dtype == "int" else "",
            )

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined:
        """Fill the rows of a tensor at once, or name the closest alternative."""
        scope = Scope.of(event, project)
        parent = scope.parents.get(event.node)
        found = filled_at_once(scope, scope.parents.get(parent)) if isinstance(parent, ast.Call) else None
        found = found or rows_at_once(scope, event.node) or over_tensor(scope, event.node)
        return found or Declined(_nearest(parent) + _setting(event.receiver))


def _setting(kind: k.Kind | None) -> str:
    """Return the part of the message that names the setting for integers."""
    tensor = k.only_tensor(kind) if kind is not None else None
    if tensor is None or tensor.dtype == "float":
        return ""
    return ", or set `torch._dynamo.config.capture_scalar_outputs = True` for integers"


def _nearest(parent: ast.AST | None) -> str:
    """Return the reason why there is no rewrite, and the closest alternative."""
    if isinstance(parent, ast.For | ast.comprehension):
        return "a loop over the elements runs in Python; write it as one operation on the whole tensor"
    if isinstance(parent, ast.Call):
        return "the sizes depend on data; mask a tensor of fixed size instead of splitting it"
    return "a list of numbers cannot be part of the graph; index or unbind the tensor and continue with tensors"
