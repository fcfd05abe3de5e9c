"""Releases of torch, and the version ranges in rules and settings."""

from __future__ import annotations

import re

# The supported releases, oldest first. Ranges in settings are evaluated on these releases.
SUPPORTED = ("2.6", "2.7", "2.8", "2.9", "2.10", "2.11", "2.12", "2.13", "2.14", "2.15")

_CLAUSE = re.compile(r"(==|!=|<=|>=|<|>|~=)?\s*(\d+(?:\.\d+)*)")
_RELEASE = re.compile(r"\d+(\.\d+)*")
_Version = tuple[int, ...]


def holds(rule_range: str, wanted: str | None) -> bool:
    """Return whether a rule for the releases `rule_range` applies to any release in `wanted`.

    Both are version specifiers, such as ">=2.6,<2.14". A bare version means only that version, and an empty range means
    all releases. If `wanted` is None, the newest supported release is used.
    """
    if not rule_range:
        return True
    return any(_contains(rule_range, version) for version in _named(wanted))


def release_of(version: str) -> str | None:
    """Return the release in a version, such as "2.13.0" in "2.13.0+cpu", or None if it does not start with a number."""
    found = _RELEASE.match(version)
    return found[0] if found is not None else None


def _named(wanted: str | None) -> list[_Version]:
    if wanted is None:
        return [_version(SUPPORTED[-1])]
    bare = _CLAUSE.fullmatch(wanted)
    if bare is not None and bare[1] in (None, "=="):
        return [_version(bare[2])]
    return [version for version in map(_version, SUPPORTED) if _contains(wanted, version)]


def _contains(versions: str, version: _Version) -> bool:
    return all(_satisfies(version, clause[1] or "==", _version(clause[2])) for clause in _CLAUSE.finditer(versions))


def _satisfies(version: _Version, operator: str, bound: _Version) -> bool:
    # Compare only as many components as the bound has, because "2.13" means 2.13.0, 2.13.1 and so on.
    cut = (*version, *[0] * len(bound))[: len(bound)]
    match operator:
        case "==":
            return cut == bound
        case "!=":
            return cut != bound
        case "<=":
            return cut <= bound
        case ">=":
            return cut >= bound
        case "<":
            return cut < bound
        case ">":
            return cut > bound
        case _:  # "~=2.6" means 2.6 or newer, but below 3.
            return cut >= bound and cut[:-1] == bound[:-1]


def _version(text: str) -> _Version:
    return tuple(int(part) for part in text.split("."))
