"""Find the files around the named ones that must be read to get the same findings as when checking the whole project.

A function's callers determine its arguments and whether it is compiled. dynalint therefore also reads the files that
use the named files, and the files that these inherit from. To find them, it scans the project's files without parsing
them, and analyses only the relevant ones. Findings are reported only in the named files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dynalint.analysis.disk import Disk
from dynalint.analysis.importers import Importers
from dynalint.analysis.namespaces import namespace_roots
from dynalint.analysis.notebook import SUFFIX
from dynalint.analysis.outlines import Outline
from dynalint.config import Configuration
from dynalint.projects.project_files import project_files

# Analysing a megabyte of model code takes about a second. This limit ensures that checking a few named files takes only
# a few seconds, however large the project is.
MOST_TEXT = 4 << 20
# If a tree has more files than any real project, only the named files and their imports are read.
MOST_FILES = 20_000


@dataclass(frozen=True, slots=True)
class RelatedFiles:
    """The files to analyse in addition to the named ones, sorted. `left_out` counts the files that exceed the limits.

    `scanned` are all files in the projects, and `disk` contains the results of looking them up on disk.
    """

    files: tuple[Path, ...] = ()
    left_out: int = 0
    scanned: tuple[Path, ...] = ()
    disk: Disk = field(default_factory=Disk)

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence about the files that were left out, if there are any."""
        many = f"{self.left_out} file{'s' if self.left_out != 1 else ''} around the named ones"
        why = "because they are too large; check the whole project to get all findings."
        return (f"{many} could not be read, {why}",) if self.left_out else ()


class Outlines:
    """The outlines of files. They are kept until the text changes, because computing them takes most of the time."""

    def __init__(self) -> None:
        self._known: dict[Path, Outline] = {}

    def of(self, path: Path, name: str, text: str) -> Outline:
        """Return the outline of the module `name` with this text."""
        known = self._known.get(path)
        if known is None or (known.name, known.text) != (name, text):
            known = self._known[path] = Outline(path, name, path.name == "__init__.py", text)
        return known


def find_related(
    named: Sequence[Path],
    configuration: Configuration,
    search: Sequence[Path],
    texts: Mapping[Path, str],
    known: Outlines | None = None,
) -> RelatedFiles:
    """Find the files that affect the files in `named`, which are absolute paths.

    `texts` replaces the contents of files. `search` lists additional folders for resolving imports, and `known`
    contains the outlines from earlier calls.
    """
    scanned, own, disk = project_files(named, configuration), set(named), Disk()
    others = [path for path in scanned if path not in own]
    if not others or len(others) > MOST_FILES:
        return RelatedFiles((), len(others), scanned, disk)
    paths = sorted({*named, *others}, key=lambda path: path.parts)
    known = known or Outlines()
    given = {path: texts[path] if path in texts else _text(path, disk) for path in paths}
    contents = {path: text for path, text in given.items() if text is not None}
    roots = [root for path in paths for root in disk.import_roots(path)]
    starts = list(dict.fromkeys([*roots, *namespace_roots(roots, contents.values(), disk), *search]))
    outlines = [known.of(path, disk.module_name(path, starts), text) for path, text in contents.items()]
    files, left_out = _bearing(named, Importers(outlines), {one.path: len(one.text) for one in outlines})
    return RelatedFiles(files, left_out, scanned, disk)


def _bearing(named: Sequence[Path], importers: Importers, sizes: Mapping[Path, int]) -> tuple[tuple[Path, ...], int]:
    """Choose files, nearest first: users of the named files and their base classes, then files that affect those."""
    own = frozenset(named)
    room = max(MOST_TEXT, sum(sizes.get(path, 0) for path in own))
    found, left_out = set(own), set[Path]()

    def fits(more: Collection[Path]) -> bool:
        nonlocal room
        room -= sum(sizes[path] for path in more)
        if room >= 0:
            found.update(more)
        return room >= 0

    fits(importers.above(own) - own)
    new: Collection[Path] = own
    while new and not left_out:
        new = sorted(importers.users(new) - found)
        left_out.update(path for path in new if not fits(({path} | importers.above([path])) - found))
    more = own if not left_out else frozenset[Path]()
    while more:  # These files are further away, so each step takes all of them or none.
        more = frozenset(importers.users(found) - found)
        more |= importers.above(more) - found
        more = more if fits(more) else frozenset()
    return tuple(sorted(found - own, key=lambda path: path.parts)), len(left_out)


def _text(path: Path, disk: Disk) -> str | None:
    if path.suffix == SUFFIX:
        return disk.source(path).text
    data = disk.text(path)
    return None if data is None else data.decode(errors="replace")
