"""What the result of a check rests on, and whether that is still so.

A result rests on the files that were found, the codes enabled and fixable in each, the content of every file that was
read, also of those read only because a checked file imports them, the other answers of the disk (a new file can change
where an import leads), and the options that rules read. The rest is part of the question, in `checks`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynalint.analysis.disk import bounds, listing
from dynalint.analysis.notebook import SUFFIX
from dynalint.config import OPTIONS
from dynalint.project_files import project_files
from dynalint.reading import MOST_BYTES, MOST_NOTEBOOK_BYTES, is_inside, read_bounded

if TYPE_CHECKING:
    from dynalint.engine import Checked
    from dynalint.workspace import Workspace


def basis_of(checked: Checked) -> dict[str, Any] | None:
    """Return what a result rests on, as JSON; None if it cannot be told, as where a file could not be read."""
    workspace, disks = checked.linter.workspace, (checked.around.disk, checked.lint.analysis.project.disk)
    contents: dict[Path, bytes | None] = {}
    for disk in disks:
        for path, data in disk.contents.items():
            contents[path] = data if contents.get(path, data) == data else None
    hashes = {str(path): None if data is None else _hash(data) for path, data in contents.items()}
    if None in hashes.values():
        return None
    names: dict[str, dict[str, bool]] = {}
    for disk in disks:
        for folder, known in disk.names.items():
            names.setdefault(folder, {}).update(known)
    return {
        "files": _files(workspace),
        "around": _texts(workspace.around),
        "scanned": None if workspace.is_whole else _texts(checked.around.scanned),
        "contents": hashes,
        "is_file": {str(path): known for disk in disks for path, known in disk.files.items()},
        "names": names,
        "inside": {str(path): known for disk in disks for path, known in disk.inside.items()},
        "options": checked.linter.options_read,
    }


def contents_if_same(basis: Mapping[str, Any], workspace: Workspace) -> dict[str, bytes] | None:
    """Return the content of the checked files if a result that rests on `basis` would be the same now, or else None."""
    settings = workspace.settings
    same = (
        basis["files"] == _files(workspace)
        and all(key in OPTIONS and repr(settings.value(key)) == value for key, value in basis["options"].items())
        and basis["scanned"] == (None if workspace.is_whole else _texts(_scanned(workspace)))
        and all(os.path.isfile(path) is known for path, known in basis["is_file"].items())  # noqa: PTH113 - faster
        and all(_names_hold(folder, known) for folder, known in basis["names"].items())
        and _insides_hold(basis, workspace)
    )
    return _contents(basis["contents"], basis["files"]["of"]) if same else None


def _scanned(workspace: Workspace) -> tuple[Path, ...]:
    return project_files(workspace.files, workspace.configuration)


def _files(workspace: Workspace) -> dict[str, Any]:
    """Return the files, and the codes enabled and fixable in each, as indices of the different sets of codes."""
    sets: dict[frozenset[str], int] = {}
    files = {
        str(path): [sets.setdefault(codes, len(sets)) for codes in (workspace.enabled(path), workspace.fixable(path))]
        for path in workspace.files
    }
    return {"codes": [sorted(codes) for codes in sets], "of": files}


def _names_hold(folder: str, known: Mapping[str, bool]) -> bool:
    names = listing(folder)
    return all((name in names) is held for name, held in known.items())


def _insides_hold(basis: Mapping[str, Any], workspace: Workspace) -> bool:
    if not basis["inside"]:
        return True
    roots = bounds([*workspace.files, *map(Path, basis["around"])])
    return all(any(is_inside(Path(path), root) for root in roots) is known for path, known in basis["inside"].items())


def _contents(hashes: Mapping[str, str], checked: Collection[str]) -> dict[str, bytes] | None:
    """Return the content of the checked files if all files have these hashes, or else None."""
    contents: dict[str, bytes] = {}
    for path, known in hashes.items():
        try:
            data = read_bounded(Path(path), MOST_NOTEBOOK_BYTES if path.endswith(SUFFIX) else MOST_BYTES)
        except (OSError, ValueError):
            return None
        if _hash(data) != known:
            return None
        if path in checked:
            contents[path] = data
    return contents


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _texts(paths: Iterable[Path]) -> list[str]:
    return [str(path) for path in paths]
