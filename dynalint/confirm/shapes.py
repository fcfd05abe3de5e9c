"""The shapes of the parts of a worker's answer that are not records. They are used to reject malformed answers.

A shape is a type, a tuple of alternatives, a list with the shape of its items or of each item, or a dict with the shape
of each value.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any

_PLACES = [{"file": str, "line": int}]
_BREAKS = [{"frames": _PLACES, "gb": (str, NoneType), "effect": str, "reason": str}]
_DIFFERENCE = {"what": str, "where": str, "raises": bool, "passes": bool, "stable": bool}
_RAN = {"inputs": int, "returned": int, "error": str, "rounded": bool, "stride": int, "passed": [str]}
_COMPILED = {
    "breaks": _BREAKS,
    "breaks_before": _BREAKS,
    "failure": ({"frames": _PLACES, "gb": (str, NoneType), "reason": str}, NoneType),
    "recompiles": int,
    "recompiled_before": (int, NoneType),
    "same_causes": bool,
    "reason": str,
    "differs": (str, NoneType),
    "differed_before": (str, NoneType),
}
_VERIFIED: Mapping[str, Any] = {
    "text": str,
    "trying": (str, NoneType),
    "problem": {"version": str, "phase": str, "message": str},
    "ran": _RAN,
    "seen": [[int, (bool, NoneType)]],
    "difference": (_DIFFERENCE, NoneType),
    "compiled": (_COMPILED, {"problem": str}),
}


def fits(operation: str, parts: Mapping[str, Any], *, done: bool) -> bool:
    """Return whether an answer's parts have the right shapes, and are complete if the operation ran to completion."""
    return operation != "operations.verifying:verify" or _verified(parts, done=done)


def _verified(parts: Mapping[str, Any], *, done: bool) -> bool:
    if not all(_has(shape, parts[name]) for name, shape in _VERIFIED.items() if name in parts):
        return False
    if "ran" not in parts:
        return "problem" in parts or not (done or "compiled" in parts or parts.get("difference"))
    return not done or bool(parts.get("difference")) or not parts["ran"]["returned"] or "compiled" in parts


def _has(shape: Any, value: Any) -> bool:
    """Return whether a value has a shape. `True` is not an int."""
    if isinstance(shape, dict):
        return (
            type(value) is dict
            and value.keys() == shape.keys()
            and all(_has(shape[name], value[name]) for name in shape)
        )
    if isinstance(shape, list):
        shapes = shape if len(shape) > 1 else shape * len(value) if type(value) is list else []
        return type(value) is list and len(value) == len(shapes) and all(map(_has, shapes, value))
    return any(_has(one, value) for one in shape) if isinstance(shape, tuple) else type(value) is shape
