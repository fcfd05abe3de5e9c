"""Powers of Python numbers, one of which will be a tensor, such as `1 - decay ** step`."""

from __future__ import annotations

import ast

from dynalint.rulekit import Refusal, k
from dynalint_rules._code.precision import is_nonzero
from dynalint_rules._shared.number.flow import Follower, is_whole


def check_power(follower: Follower, power: ast.BinOp, node: ast.expr, dtype: k.DType | None) -> k.DType | None:
    """Record the conditions for a power of two numbers, and return the dtype of the result. `node` will be a tensor.

    Python gives a complex number for a fractional power of a negative number, and raises an exception for a negative
    power of zero. torch gives NaN and infinity.

    Raises:
        Refusal: If the power of a tensor is not known to be the same.
    """
    scope, other = follower.scope, power.right if node is power.left else power.left
    kind, shown = scope.kind(other), scope.quote(power)
    if isinstance(kind, k.Unknown):
        follower.flow.conditions[f"{scope.quote(other)} in {shown} is a floating-point number"] = None
    elif not k.is_number(kind):
        raise Refusal(f"{scope.quote(other)} in {shown} may not be a number; compute the power of a tensor instead")
    base, exponent = scope.kind(power.left), scope.kind(power.right)
    whole = dtype == "int" if node is power.right else is_whole(exponent)
    others = "int" if is_whole(kind) else "float"
    counted = dtype == "int" and others != "float" and not _is_at_least(exponent, 0)
    if counted and follower.stored and node is power.right and _is_at_least(base, 1):
        follower.flow.conditions[f"{scope.quote(power.right)} is not negative in {shown}, which fits its dtype"] = None
        return dtype
    if dtype in ("bool", "complex") or counted:
        raise Refusal(f"{shown} gives a different result with a tensor; rewrite that step with tensor operations first")
    if dtype is None and others != "float" and not _is_at_least(exponent, 0):
        follower.flow.conditions[f"{scope.quote(node)} is a floating-point number"] = None
    named = scope.quote(power.left)
    if not whole and not _is_at_least(base, 0):
        follower.flow.conditions[f"{named} is not negative in {shown}"] = None
    if not _is_at_least(exponent, 0) and not is_nonzero(base):
        follower.flow.conditions[f"{named} is not zero in {shown}"] = None
    return "float" if "float" in (dtype, others) else dtype


def _is_at_least(kind: k.Kind, least: float) -> bool:
    """Return whether a kind is a constant that is not less than `least`."""
    constants = [one.constant if isinstance(one, k.Value) else None for one in kind.members]
    return all(isinstance(one, int | float) and one >= least for one in constants)
