"""Folding the numbers of a tensor where they are, for which a list of them was made.

if x.shape[0] != sum(lengths.tolist()):
if x.shape[0] != lengths.sum():
"""

from __future__ import annotations

import ast

from dynalint.analysis import kinds as k
from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.numbers import flow_of
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.text import atom

_FOLDS = {"builtins.sum": "sum", "builtins.max": "max", "builtins.min": "min"}


def folded(scope: Scope, node: ast.Call, source: ast.expr) -> Rewrite | None:
    """Return the rewrite of `sum(t.tolist())` and its like into a reduction, None where `node` is not folded so.

    `node` makes the list of `source`. Whole numbers alone: those with a fraction add up otherwise, and some of them
    compare with nothing. Where the dtype is not known, that has to hold, and the number may only decide something.

    Raises:
        Refusal: at least one of the uses of the number takes no tensor, or nothing is known of it.
    """
    call, tensor = scope.parents[node], scope.tensor(source)
    name = _FOLDS.get(callee(scope, call)) if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or name is None or call.args != [node] or call.keywords:
        return None
    if tensor is None or tensor.array or tensor.dtype not in ("int", None) or tensor.rank not in (1, None):
        return None
    shown = scope.quote(source)
    flow = flow_of(scope, call, "int", wide=name == "sum")
    if tensor.dtype is None and flow.meets:
        return None
    flow.conditions.update(dict.fromkeys(_conditions(tensor, name, shown)))
    text = f"{atom(source, scope.text(source))}.{name}()"
    edits = (Replacement(scope.file, *scope.file.span(call), text), *flow.edits)
    title = f"Reduce the tensor: `.{name}()` instead of `{name}()` of a list"
    return Rewrite(title, flow.safety, edits, flow.clauses, imports=flow.imports, leaves=flow.leaves)


def _conditions(tensor: k.Tensor, name: str, shown: str) -> list[str]:
    """What must hold for the reduction to be that of the list."""
    found = [f"{shown} is on the CPU or on the device of what it meets"]
    if tensor.rank != 1:
        found.insert(0, f"{shown} has one dimension")
    if tensor.dtype is None:
        found.append(f"{shown} holds whole numbers")
    if name != "sum":
        found.append(f"{shown} is not empty")
    return found
