"""Folders without `__init__.py` that code imports as packages, such as `src/tool` for `from tool.core import run`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from dynalint.analysis.disk import Disk

# How many folders above a package or a script may be part of its dotted name.
_MOST_LEVELS = 3


def namespace_roots(roots: Iterable[Path], texts: Iterable[str], disk: Disk) -> Iterator[Path]:
    """Yield the folders above `roots` from which the code in `texts` imports folders that lead to one of them."""
    known = dict.fromkeys(roots)
    wanted = {pair for root in known for pair in _names(root, disk) if pair[1].parent not in known}
    for text in texts if wanted else ():
        for name, folder in sorted(pair for pair in wanted if f" {pair[0]}." in text or f" {pair[0]} import" in text):
            if _imports_from(name, folder, text, disk):
                wanted.discard((name, folder))
                yield folder.parent


def _names(root: Path, disk: Disk) -> Iterator[tuple[str, Path]]:
    """Yield the dotted names under which a folder may be imported, each with the folder for its first part."""
    name, folder = root.name, root
    for _ in range(_MOST_LEVELS):
        if not folder.name.isidentifier() or disk.has(folder, "__init__.py"):
            return
        yield name, folder
        folder = folder.parent
        name = f"{folder.name}.{name}"


def _imports_from(name: str, first: Path, text: str, disk: Disk) -> bool:
    """Return whether code imports something from a dotted name that is in the folder for this name."""
    folder = first.parent.joinpath(*name.split("."))
    pattern = rf"^[ \t]*(?:from|import)[ \t]+{re.escape(name)}(?:\.(\w+)|[ \t]+import[ \t]*(\([^)]*\)|[^\n]*))"
    listed = (match[1] or match[2] for match in re.finditer(pattern, text, re.MULTILINE))
    found = (one for names in listed for one in re.findall(r"\w+", names))
    return any(disk.has(folder, one) or disk.has(folder, f"{one}.py") for one in found)
