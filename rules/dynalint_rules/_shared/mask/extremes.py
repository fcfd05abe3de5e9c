"""The largest or smallest of the elements that a mask selects.

scores[valid].max()                     scores.masked_fill(~valid, float("-inf")).max()
"""

from __future__ import annotations

import ast

from dynalint.rulekit import Rewrite, rw
from dynalint_rules._code.calls import callee
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.selection import Selection
from dynalint_rules._shared.mask.trailing_dimensions import is_certain, trailing
from dynalint_rules._shared.text import atom

_TITLE = "Replace the other elements with infinity, which is never selected"
_NEUTRAL = {"max": "-inf", "amax": "-inf", "min": "inf", "amin": "inf"}
_OPPOSITES: dict[type[ast.cmpop], str] = {ast.Eq: "!=", ast.NotEq: "=="}


def rewrite_extreme(scope: Scope, read: Selection) -> Rewrite | None:
    """Return the rewrite of `x[mask].max()` and similar reductions to one number, or None for any other code."""
    neutral = _NEUTRAL.get(_reduction(scope, read.node))
    dtype = scope.dtype(read.source)
    if neutral is None or scope.tensor(read.mask) is None or not is_pure(scope, read.mask):
        return None
    if dtype in ("bool", "int") or (dtype is None and _selects_labels(read)):
        return None
    source, own = scope.text(read.source), trailing(scope, read.source, read.mask)
    others = _negated(scope, read.mask)
    if own:
        others = f"({others})[..., {', '.join(['None'] * own)}]"
    text = f'{atom(read.source, source)}.masked_fill({others}, float("{neutral}"))'
    shown = scope.quote(read.source)
    known = [] if dtype == "float" else [f"{shown} is a floating-point tensor"]
    conditions = (*known, f"the mask selects at least one element of {shown}, and covers its first dimensions")
    ranks = not is_certain(scope, read.source, read.mask)
    return Rewrite(_TITLE, "conditional", rw.written(scope.file, (read.node, text)), conditions, ranks=ranks)


def _reduction(scope: Scope, node: ast.expr) -> str:
    """Return the name of the function or method that reduces all of an expression's elements, or ""."""
    parent = scope.parents[node]
    call = scope.parents[parent] if isinstance(parent, ast.Attribute) else parent
    if not isinstance(call, ast.Call) or call.keywords:
        return ""
    if isinstance(parent, ast.Attribute):
        return parent.attr if call.func is parent and not call.args else ""
    module, _, name = callee(scope, call).rpartition(".")
    return name if module == "torch" and call.args == [node] else ""


def _selects_labels(read: Selection) -> bool:
    """Return whether a mask compares the elements themselves with `==` or `!=`, as only code with integers does."""
    mask = read.mask
    if not isinstance(mask, ast.Compare) or not isinstance(mask.ops[0], ast.Eq | ast.NotEq):
        return False
    return ast.unparse(mask.left) == ast.unparse(read.source)


def _negated(scope: Scope, mask: ast.expr) -> str:
    """Return the text of a mask of the elements that a mask does not select."""
    if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert):
        return scope.text(mask.operand)
    tensor = scope.tensor(mask.left) if isinstance(mask, ast.Compare) else None
    if isinstance(mask, ast.Compare) and ast.unparse(mask).endswith(" == 0") and tensor and tensor.dtype == "bool":
        return scope.text(mask.left)
    if isinstance(mask, ast.Compare) and len(mask.ops) == 1 and (sign := _OPPOSITES.get(type(mask.ops[0]))):
        return f"{scope.text(mask.left)} {sign} {scope.text(mask.comparators[0])}"
    return f"~{atom(mask, scope.text(mask))}"
