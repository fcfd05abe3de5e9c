"""Find the files around the named ones that must be read to get the same findings as in a run on the whole project.

The callers of a function determine its arguments and whether it is compiled. So dynalint also reads the files that use
the named ones, and those that they inherit from. They are found by scanning the text of the project's files without
parsing; only relevant files are analysed. Findings are reported only in the named files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dynalint.analysis.importers import Importers
from dynalint.analysis.notebook import SUFFIX
from dynalint.analysis.outlines import Outline
from dynalint.analysis.project import module_name, package_root
from dynalint.analysis.source import read_source
from dynalint.config import Configuration
from dynalint.discover import discover
from dynalint.reading import is_inside, is_marked, project_root, read_bounded

# A megabyte of model code takes about a second to analyse. The limit keeps a run on a few named files at a few seconds,
# however large the project.
MOST_TEXT = 4 << 20
# If a tree has more files than any real project, only the named files and their imports are read.
MOST_FILES = 20_000


@dataclass(frozen=True, slots=True)
class Around:
    """The files to analyse besides the named ones, sorted. `left_out` counts the files that exceed the limits."""

    files: tuple[Path, ...] = ()
    left_out: int = 0


class Outlines:
    """The outlines of files, kept while their text is the same, because working them out takes most of the time."""

    def __init__(self) -> None:
        self._known: dict[Path, Outline] = {}

    def of(self, path: Path, name: str, text: str) -> Outline:
        """Return the outline of the module `name` with this text."""
        known = self._known.get(path)
        if known is None or (known.name, known.text) != (name, text):
            known = self._known[path] = Outline(path, name, path.name == "__init__.py", text)
        return known


def around(
    named: Sequence[Path],
    configuration: Configuration,
    search: Sequence[Path],
    texts: Mapping[Path, str],
    known: Outlines | None = None,
) -> Around:
    """Find the files that affect the files `named` (absolute paths). `texts` replaces the content of files.

    `search` lists additional folders for resolving imports, `known` has the outlines of earlier calls.
    """
    others = [path for path in _project_files(named, configuration) if path not in set(named)]
    if not others or len(others) > MOST_FILES:
        return Around(left_out=len(others))
    paths = sorted({*named, *others}, key=lambda path: path.parts)
    starts = list(dict.fromkeys([*(package_root(path)[0] for path in paths), *search]))
    known = known or Outlines()
    outlines = [
        known.of(path, module_name(path, starts), text)
        for path in paths
        if (text := texts[path] if path in texts else _text(path)) is not None
    ]
    return _bearing(named, Importers(outlines), {one.path: len(one.text) for one in outlines})


def _bearing(named: Sequence[Path], importers: Importers, sizes: Mapping[Path, int]) -> Around:
    """Choose the nearest files first: users of the named files and their base classes, then files that affect those."""
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
    while more:  # these files are further away, so each step takes all of them or none
        more = frozenset(importers.users(found) - found)
        more |= importers.above(more) - found
        more = more if fits(more) else frozenset()
    return Around(tuple(sorted(found - own, key=lambda path: path.parts)), len(left_out))


def _project_files(named: Iterable[Path], configuration: Configuration) -> tuple[Path, ...]:
    """Return the files of the projects that contain the given files: those that the settings include, or else all."""
    tops = {top for folder in {path.parent for path in named} for top in _tops(folder, configuration)}
    more = [top for top in sorted(tops.difference(named)) if top.exists()]
    return discover(more, configuration.for_directory).files


def _tops(folder: Path, configuration: Configuration) -> Iterator[Path]:
    root, settings = project_root(folder), configuration.for_directory(folder)
    if settings.config_file is not None and is_inside(settings.root, root) and is_inside(folder, settings.root):
        root = settings.root
        yield from (path for path in settings.include if is_inside(path, root))
        if settings.include:
            return
    elif not is_marked(folder):  # no project: use the package that contains the file, or the scripts next to it
        yield from sorted(root.glob("*.py"))
        if folder != root:
            yield root / folder.relative_to(root).parts[0]
        return
    yield root


def _text(path: Path) -> str | None:
    if path.suffix == SUFFIX:
        return read_source(path).text
    try:
        return read_bounded(path).decode(errors="replace")
    except OSError:
        return None
