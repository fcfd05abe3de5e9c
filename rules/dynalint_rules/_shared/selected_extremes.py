"""The largest or smallest of what a mask selects: what is not selected gets a value that is no larger or no smaller."""

from __future__ import annotations

import ast

from dynalint.analysis import kinds as k
from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.masked_reductions import Selection, matches, may_match
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.text import atom

_EXTREMES = ("max", "min", "amax", "amin")


def extreme_of(scope: Scope, read: Selection) -> Rewrite | None:
    """Return the rewrite of `x[mask].max()` and the like, None where something else is done with the elements."""
    asked = scope.parents[read.node]
    call = scope.parents[asked]
    if not isinstance(asked, ast.Attribute) or asked.attr not in _EXTREMES or not isinstance(call, ast.Call):
        return None
    if call.func is not asked or call.args or call.keywords or not may_match(scope, read):
        return None
    if not isinstance(scope.kind(asked), k.Method) or not is_pure(scope, read.source):
        return None
    source, mask = scope.text(read.source), scope.text(read.mask)
    filled = _no_more(scope, read.source, largest=asked.attr.endswith("max"))
    text = f"{scope.torch}.where({mask}, {source}, {filled})"
    conditions = (
        f"nothing raises where {scope.quote(read.mask)} selects nothing",
        *(() if matches(scope, read) else ("the mask has as many dimensions as the tensor",)),
    )
    replacement = Replacement(scope.file, *scope.file.span(read.node), text)
    title = f"Take the {asked.attr} of the full shape, with a value that does not matter where nothing is selected"
    return Rewrite(title, "unsafe", (replacement,), conditions, scope.imports)


def _no_more(scope: Scope, source: ast.expr, *, largest: bool) -> str:
    """Return the text of what is not larger than any element, or not smaller, whatever is among them."""
    tensor, text = scope.tensor(source), atom(source, scope.text(source))
    sign, least = ("-", "min") if largest else ("", "max")
    if tensor is not None and tensor.dtype == "float":
        return f"{sign}{scope.torch}.inf"
    if tensor is not None and tensor.dtype == "int":
        return f"{text}.{least}()"
    # NaN must not come in, nor a finite number for what is infinite.
    return f"{text}.detach().nan_to_num({'neginf' if largest else 'posinf'}={sign}{scope.torch}.inf).{least}()"
