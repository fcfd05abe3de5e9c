"""Sides of which some give a tensor and some a number, as in `scale = x.abs().max() if t else 1.0`.

`torch.where` gives a tensor either way. Where that meets nothing but tensors in arithmetic, it may not be told from the
number that it holds.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dynalint.analysis import kinds as k
from dynalint.rules import Refusal
from dynalint_rules._shared.scope import Scope, as_tensor
from dynalint_rules._shared.sides import SAME_FORM, Side, tensor_conditions

_EXACT = (ast.Add, ast.Sub, ast.Mult)


def mixed_conditions(scope: Scope, sides: Sequence[Side], uses: Sequence[ast.expr]) -> list[str] | None:
    """Return what must hold for sides that give a tensor or a number; None where others are among them.

    `uses` are the places that read the result.

    Raises:
        Refusal: something reads the result that may need a number, or the very tensor.
    """
    tensors = [side for side in sides if as_tensor(side.kind) is not None]
    numbers = [side for side in sides if _may_be_number(side.kind)]
    if not tensors or not numbers or len(tensors) + len(numbers) < len(sides):
        return None
    floats = any(isinstance(one, k.Value) and one.type == "float" for side in numbers for one in side.kind.members)
    for tensor in (as_tensor(side.kind) for side in tensors):
        if floats and tensor is not None and tensor.dtype in ("bool", "int"):
            raise Refusal("one side gives a tensor of whole numbers, the other a float; make both of one dtype")
    for use in uses:
        if not _meets_tensor(scope, use):
            parent = scope.parents.get(use)
            place = scope.quote(parent if isinstance(parent, ast.expr | ast.stmt) else use)
            raise Refusal(
                f"one side gives the number {_shown(scope, numbers[0])}, the other a tensor, and {place} may need the "
                "one or the other; use `torch.full_like` of the tensor"
            )
    places = dict.fromkeys(scope.quote(parent) for use in uses if isinstance(parent := scope.parents[use], ast.expr))
    conditions = [
        f"{place} comes to the same dtype, shape and precision with a tensor for {_shown(scope, number)}"
        for number in numbers
        for place in places
    ]
    return conditions + [text for text in tensor_conditions(scope, tensors) if text != SAME_FORM]


def _may_be_number(kind: k.Kind) -> bool:
    """Whether a kind is a number that is known while tracing, or that or a tensor; a flag is more than its value."""
    numbers = [one for one in kind.members if as_tensor(one) is None]
    return bool(numbers) and all(
        isinstance(one, k.Value) and one.type in ("int", "float") and one.source != "data" for one in numbers
    )


def _meets_tensor(scope: Scope, node: ast.expr) -> bool:
    """Whether a use is an operand beside a tensor that is another value, or divides one."""
    parent = scope.parents.get(node)
    if not isinstance(parent, ast.BinOp) or not isinstance(parent.op, (*_EXACT, ast.Div)):
        return False
    other = parent.right if parent.left is node else parent.left
    exact = isinstance(parent.op, _EXACT) or parent.right is node
    return exact and scope.tensor(other) is not None and ast.unparse(other) != ast.unparse(node)


def _shown(scope: Scope, side: Side) -> str:
    return scope.quote(side.node) if side.node is not None else f"`{side.name}`"
