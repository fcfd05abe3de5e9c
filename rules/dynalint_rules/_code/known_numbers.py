"""Numbers in arrays that Dynamo knows during tracing."""

from __future__ import annotations

from dynalint.rulekit import k


def is_folded(tensor: k.Tensor) -> bool:
    """Return whether Dynamo knows the number in an array because it is the result of a NumPy ufunc applied to numbers.

    Reductions do not count.
    """
    return tensor.array and tensor.foreseen and tensor.dtype == "float"


def is_stored_number(tensor: k.Tensor) -> bool:
    """Return whether this is a NumPy number, or a one-element array, that an attribute held before the call.

    Dynamo specialises on the number, but does not know any values computed from it.
    """
    return tensor.array and tensor.origin == "attribute" and tensor.rank in (0, None)
