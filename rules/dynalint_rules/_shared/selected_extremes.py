"""The largest or smallest of what a mask selects: what is not selected gets a value that is no larger or no smaller."""

from __future__ import annotations

import ast

from dynalint import rewriting as rw
from dynalint.analysis import kinds as k
from dynalint.rules import Rewrite
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.masked_reductions import Selection, matches, may_match
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.text import atom

_EXTREMES = ("max", "min", "amax", "amin")


def extreme_of(scope: Scope, read: Selection) -> Rewrite | None:
    """Return the rewrite of `x[mask].max()` and the like, None where something else is done with the elements."""
    asked = scope.parents[read.node]
    call = scope.parents.get(asked)
    if not isinstance(asked, ast.Attribute) or asked.attr not in _EXTREMES or not isinstance(call, ast.Call):
        return None
    if call.func is not asked or call.args or call.keywords or not may_match(scope, read):
        return None
    if not isinstance(scope.kind(asked), k.Method) or not is_pure(scope, read.source):
        return None
    source, mask = scope.text(read.source), scope.text(read.mask)
    tensor = scope.tensor(read.source)
    is_known = tensor is not None and tensor.dtype in ("float", "int")
    filled = _no_more(scope, read.source, largest=asked.attr.endswith("max"))
    text = f"{scope.torch}.where({mask}, {source}, {filled})"
    conditions = (
        f"nothing raises where {scope.quote(read.mask)} selects nothing",
        *(() if matches(scope, read) else ("the mask has as many dimensions as the tensor",)),
        *(() if is_known else (f"{scope.quote(read.source)} is a floating-point tensor",)),
    )
    edits = rw.written(scope.file, (read.node, text))
    title = f"Take the {asked.attr} of the full shape, with a value that does not matter where nothing is selected"
    return Rewrite(title, "unsafe", edits, conditions, scope.imports)


def _no_more(scope: Scope, source: ast.expr, *, largest: bool) -> str:
    """Return the text of what is not larger, or not smaller, than any element of a tensor.

    That is infinity, and no element: equal ones share a gradient, of which this must not take a part.
    """
    tensor = scope.tensor(source)
    if tensor is not None and tensor.dtype == "int":
        return f"{atom(source, scope.text(source))}.{'min' if largest else 'max'}()"
    return f"{'-' if largest else ''}{scope.torch}.inf"
