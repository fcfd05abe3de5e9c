"""Numbers in arrays that Dynamo knows while it traces."""

from __future__ import annotations

from dynalint.rulekit import k


def is_folded(tensor: k.Tensor) -> bool:
    """Return whether Dynamo knows the number in an array: the result of a NumPy ufunc (no reduction) of numbers."""
    return tensor.array and tensor.foreseen and tensor.dtype == "float"


def is_stored_number(tensor: k.Tensor) -> bool:
    """Return whether this is a NumPy number, or an array of one, that was in an attribute before the call.

    Dynamo specialises on its value, and does not know any value computed from it.
    """
    return tensor.array and tensor.origin == "attribute" and tensor.rank in (0, None)
