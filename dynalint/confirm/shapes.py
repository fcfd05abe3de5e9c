"""Types for the parts of a worker's answer that are not records. They are used to reject malformed answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dynalint.confirm.worker.dynamo.records import decode


@dataclass(frozen=True)
class _Problem:
    version: str
    phase: str
    message: str


@dataclass(frozen=True)
class _Ran:
    inputs: int
    returned: int
    error: str
    rounded: bool
    stride: int
    passed: tuple[str, ...]


@dataclass(frozen=True)
class _Difference:
    what: str
    where: str
    raises: bool
    passes: bool
    stable: bool


@dataclass(frozen=True)
class _Place:
    file: str
    line: int


@dataclass(frozen=True)
class _Break:
    frames: tuple[_Place, ...]
    gb: str | None
    effect: str
    reason: str


@dataclass(frozen=True)
class _Failure:
    frames: tuple[_Place, ...]
    gb: str | None
    reason: str


@dataclass(frozen=True)
class _Compiled:
    breaks: tuple[_Break, ...]
    breaks_before: tuple[_Break, ...]
    failure: _Failure | None
    recompiles: int
    recompiled_before: int | None
    same_causes: bool
    reason: str
    differs: str | None
    differed_before: str | None


@dataclass(frozen=True)
class _NotCompiled:
    problem: str


_VERIFIED: Mapping[str, Any] = {
    "text": str,
    "trying": str | None,
    "problem": _Problem,
    "ran": _Ran,
    "seen": tuple[tuple[int, bool | None], ...],
    "difference": _Difference | None,
}


def fits(operation: str, parts: Mapping[str, Any], *, done: bool) -> bool:
    """Return whether an answer's parts have the right types, and are complete if the operation ran to completion."""
    return operation != "operations.verifying:verify" or _verified(parts, done=done)


def _verified(parts: Mapping[str, Any], *, done: bool) -> bool:
    try:
        for name, kind in _VERIFIED.items():
            if name in parts:
                decode(kind, parts[name])
        if "compiled" in parts:
            decode(_NotCompiled if "problem" in parts["compiled"] else _Compiled, parts["compiled"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
    if "ran" not in parts:
        return "problem" in parts or not (done or "compiled" in parts or parts.get("difference"))
    return not done or bool(parts.get("difference")) or not parts["ran"]["returned"] or "compiled" in parts
