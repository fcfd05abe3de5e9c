"""Record what the result of a check depends on, and check whether it has changed.

A result depends on the files that were found, the codes that are enabled and fixable in each file, and the contents of
every file that was read, including files that were read only because a checked file imports them. It also depends on
everything else that the analysis asked the disk, because a new file can change what an import refers to, and on the
options that rules read. Everything else is part of the question in `checks`.

If only some of a project's files are named, the other files determine which of them are analysed too. If any of the
other files has changed, they are scanned again, and the result is still valid if the same files are analysed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynalint.analysis.disk import Disk, bounds, extension_in, listing
from dynalint.analysis.source import identity, read_file
from dynalint.config import OPTIONS
from dynalint.projects.project_files import project_files
from dynalint.projects.reading import is_inside

if TYPE_CHECKING:
    from dynalint.engine import Checked
    from dynalint.projects.related_files import RelatedFiles
    from dynalint.projects.workspace import Workspace

Basis = dict[str, Any]


def basis_of(checked: Checked) -> Basis | None:
    """Return what a result depends on, as JSON, or None if files changed while it was computed."""
    workspace = checked.linter.workspace
    disk = _answers(checked.lint.analysis.project.disk)
    near = None if disk is None else _near(checked.around, disk)
    if near is None:
        return None
    return {
        "files": _files(workspace),
        "near": None if workspace.is_whole else near,
        "disk": disk,
        "options": checked.linter.options_read,
    }


def still_holds(basis: Basis, workspace: Workspace) -> bool:
    """Return whether a result that depends on `basis` would be the same now. `basis` is updated if it has changed."""
    settings = workspace.settings
    return (
        basis["files"] == _files(workspace)
        and all(key in OPTIONS and repr(settings.value(key)) == value for key, value in basis["options"].items())
        and _still_answers(basis["disk"], [*workspace.files, *_paths((basis["near"] or {}).get("files", ()))])
        and (basis["near"] is None if workspace.is_whole else _near_holds(basis, workspace))
    )


def content(basis: Basis, path: Path) -> bytes | None:
    """Return the contents of a checked file, or None if they have changed since the result was computed."""
    data = read_file(path)
    return b"" if isinstance(data, str) else data if identity(data) == basis["disk"]["contents"][str(path)] else None


def _near(around: RelatedFiles, analysed: Basis) -> Basis | None:
    """Return what determined which files were analysed, leaving out the contents that are already in `analysed`."""
    answers = _answers(around.disk)
    if answers is None:
        return None
    known = analysed["contents"]
    answers["contents"] = {path: one for path, one in answers["contents"].items() if known.get(path) != one}
    scanned, files = _texts(around.scanned), _texts(around.files)
    return {"scanned": scanned, "disk": answers, "files": files, "notes": list(around.notes)}


def _near_holds(basis: Basis, workspace: Workspace) -> bool:
    known = basis["near"]
    scanned = project_files(workspace.files, workspace.configuration)
    if known["scanned"] == _texts(scanned) and _still_answers(known["disk"], ()):
        return True
    from dynalint.engine import surroundings

    now = _near(surroundings(workspace), basis["disk"])
    basis["near"] = now
    return now is not None and (now["files"], now["notes"]) == (known["files"], known["notes"])


def _answers(disk: Disk) -> Basis | None:
    if None in disk.contents.values():
        return None
    return {
        "contents": {str(path): content for path, content in disk.contents.items()},
        "is_file": {str(path): known for path, known in disk.files.items()},
        "names": disk.names,
        "extensions": disk.extensions,
        "inside": {str(path): known for path, known in disk.inside.items()},
    }


def _still_answers(answers: Basis, checked: Iterable[Path]) -> bool:
    """Return whether the disk still gives these answers. `checked` are the files whose projects count as inside."""
    roots = bounds(checked) if answers["inside"] else ()
    return (
        all(os.path.isfile(path) is known for path, known in answers["is_file"].items())  # noqa: PTH113 - faster
        and all(_has_still(folder, names) for folder, names in answers["names"].items())
        and all(_has_extensions(folder, known) for folder, known in answers["extensions"].items())
        and all(any(is_inside(Path(one), root) for root in roots) is known for one, known in answers["inside"].items())
        and all(identity(read_file(Path(path))) == known for path, known in answers["contents"].items())
    )


def _has_still(folder: str, names: Mapping[str, bool]) -> bool:
    now = listing(folder)
    return all((name in now) is known for name, known in names.items())


def _has_extensions(folder: str, known: Mapping[str, str | None]) -> bool:
    now = listing(folder)
    return all(extension_in(now, name) == file for name, file in known.items())


def _files(workspace: Workspace) -> Basis:
    """Return the files with the codes that are enabled and fixable in each. Equal sets are stored only once."""
    sets: dict[frozenset[str], int] = {}
    files = {
        str(path): [sets.setdefault(codes, len(sets)) for codes in (workspace.enabled(path), workspace.fixable(path))]
        for path in workspace.files
    }
    return {"codes": [sorted(codes) for codes in sets], "of": files}


def _texts(paths: Iterable[Path]) -> list[str]:
    return [str(path) for path in paths]


def _paths(texts: Iterable[str]) -> Iterable[Path]:
    return map(Path, texts)
