"""Identify the code that finds problems: dynalint, the rule packs, the libraries that affect results, and Python."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, version
from importlib.util import find_spec
from pathlib import Path

# libcst makes rewrites, and pathspec matches patterns.
_LIBRARIES = ("libcst", "pathspec")
_RULES = "dynalint.rules"


@cache
def stamp() -> str | None:
    """Return a hash of this code, or None if the code is not in files, so that changes to it could not be detected.

    The version alone is not enough, because it does not change in an editable installation. The hash covers everything
    in a rule pack's top-level package, but not what the rule pack imports from elsewhere.
    """
    packs = sorted({"dynalint_rules"} | {point.value for point in entry_points(group=_RULES)})
    tops = sorted({"dynalint"} | {name.partition(":")[0].partition(".")[0] for name in packs})
    try:
        files = [list(_files(name)) for name in tops]
    except (ImportError, OSError, ValueError):
        return None
    if not all(files):
        return None
    parts = [sys.version, sys.implementation.name, packs, [_version(name) for name in _LIBRARIES], files]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _files(name: str) -> Iterator[tuple[str, str]]:
    """Yield the name and hash of each file in a top-level module or package."""
    spec = find_spec(name)
    if spec is None:
        return
    if spec.submodule_search_locations is None:
        yield name, _hash(str(spec.origin))
        return
    pending = [(str(folder), "") for folder in spec.submodule_search_locations]
    for folder, shown in pending:
        with os.scandir(folder) as found:
            entries = sorted((one.name, one.path, one.is_dir()) for one in found)
        pending += [(path, f"{shown}{one}/") for one, path, is_dir in entries if is_dir and one != "__pycache__"]
        yield from ((f"{shown}{one}", _hash(path)) for one, path, is_dir in entries if not is_dir)


def _hash(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""
