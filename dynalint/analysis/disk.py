"""The disk as an analysis sees it.

The analysis only accesses the disk through this module, which looks up everything once and keeps the answers. A result
is valid as long as the disk gives the same answers. `dynalint.caching` checks this to find out whether it can report
the result again.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from dynalint.analysis.source import SourceFile, Sources, identity, read_file
from dynalint.projects.reading import is_inside, project_root


class Disk:
    """Looks up files on disk.

    `overrides` replaces the text of files (by absolute path), and `sources` reads the other files.
    """

    def __init__(self, sources: Sources | None = None, overrides: Mapping[Path, str] | None = None) -> None:
        self.contents: dict[Path, str | None] = {}
        """A hash of each file read (see `identity`), or None if it has changed since."""
        self.files: dict[Path, bool] = {}
        """Whether a path is a file."""
        self.names: dict[str, dict[str, bool]] = {}
        """Whether a folder contains a name, by folder."""
        self.extensions: dict[str, dict[str, str | None]] = {}
        """The files of extension modules, by folder and module name, or None if there is no such file."""
        self.inside: dict[Path, bool] = {}
        """Whether a file, after resolving links, is in the same project as a checked file."""
        self._sources = sources or Sources()
        self._overrides = overrides or {}
        self._listings: dict[str, frozenset[str]] = {}
        self._roots: dict[Path, tuple[Path, tuple[str, ...]]] = {}

    def revise(self, overrides: Mapping[Path, str]) -> None:
        """Use `overrides` instead of the previous ones from now on."""
        self._overrides = overrides

    def changed(self, overrides: Mapping[Path, str]) -> list[Path]:
        """Return the files whose text in `overrides` differs from the current one."""
        paths = dict.fromkeys([*self._overrides, *overrides])
        return [path for path in paths if overrides.get(path) != self._overrides.get(path)]

    def source(self, path: Path) -> SourceFile:
        """Return the parsed file at a path."""
        text = self._overrides.get(absolute(path))
        if text is not None:
            return self._sources.given(path, text)
        file = self._sources.read(path)
        self._note(path, file.identity)
        return file

    def text(self, path: Path) -> bytes | None:
        """Return the content of a file without parsing it, or None if it cannot be read."""
        data = read_file(path)
        self._note(path, identity(data))
        return data if isinstance(data, bytes) else None

    def _note(self, path: Path, content: str) -> None:
        self.contents[path] = content if self.contents.get(path, content) == content else None

    def has(self, folder: Path, name: str) -> bool:
        """Return whether a folder contains a file or folder with this name."""
        key = str(folder)
        known = self.names.setdefault(key, {})
        if name not in known:
            if key not in self._listings:
                self._listings[key] = listing(key)
            known[name] = name in self._listings[key]
        return known[name]

    def extension(self, folder: Path, name: str) -> str | None:
        """Return the file name of an extension module in a folder, or None if there is none."""
        key = str(folder)
        known = self.extensions.setdefault(key, {})
        if name not in known:
            known[name] = extension_in(listing(key), name)
        return known[name]

    def is_file(self, path: Path) -> bool:
        """Return whether a path is a file."""
        known = self.files.get(path)
        if known is None:
            known = self.files[path] = path.is_file()
        return known

    def is_inside(self, path: Path, folders: frozenset[Path]) -> bool:
        """Return whether a path, after resolving links, is in one of the folders of the checked projects."""
        known = self.inside.get(path)
        if known is None:
            known = self.inside[path] = any(is_inside(path, folder) for folder in folders)
        return known

    def module_name(self, path: Path, starts: list[Path]) -> str:
        """Return the dotted name of a file, relative to its package root or to a folder in `starts` above it."""
        root, parts = self.package_root(path)
        shown = str(root)
        for folder in starts:
            # Comparing text is ten times faster than looking for the folder among the parents.
            if shown.startswith(os.path.join(folder, "")) and folder != root:  # noqa: PTH118 - with a separator at the end
                between = root.relative_to(folder).parts
                if all(part.isidentifier() for part in between):
                    return ".".join([*between, *parts])
        return ".".join(parts)

    def package_root(self, path: Path) -> tuple[Path, list[str]]:
        """Return the folder from which the file at `path` is imported, and the parts of its dotted name."""
        root, packages = self._package(path.parent)
        parts = [*packages, *([] if path.name == "__init__.py" else [path.stem])]
        return root, parts or [path.stem]

    def import_roots(self, path: Path) -> Iterator[Path]:
        """Yield the folders from which the file at `path` may be imported.

        A folder without `__init__.py` inside a package holds scripts, or modules of the package.
        """
        root, _ = self.package_root(path)
        yield root
        if self.is_file(root.parent / "__init__.py"):
            yield self._package(root.parent)[0]

    def _package(self, folder: Path) -> tuple[Path, tuple[str, ...]]:
        """Return the folder from which the package in `folder` is imported, and the parts of the package's name."""
        known = self._roots.get(folder)
        if known is None:
            known = folder, ()
            if self.is_file(folder / "__init__.py") and folder != folder.parent:
                root, parts = self._package(folder.parent)
                known = root, (*parts, folder.name)
            self._roots[folder] = known
        return known


def bounds(checked: Iterable[Path]) -> frozenset[Path]:
    """Return the folders of the projects that the checked files belong to. Imports do not read files outside them."""
    folders = {os.path.realpath(folder) for folder in {path.parent for path in checked}}
    return frozenset(project_root(Path(folder)) for folder in folders)


def listing(folder: str) -> frozenset[str]:
    """Return the names in a folder. If the folder cannot be read, there are none."""
    try:
        return frozenset(os.listdir(folder))  # noqa: PTH208 - only names are needed
    except OSError:
        return frozenset()


def extension_in(names: Collection[str], module: str) -> str | None:
    """Return the file of an extension module among the names in a folder, or None if there is none."""
    found = (one for one in names if one.startswith(f"{module}.") and one.endswith((".so", ".pyd")))
    return min(found, default=None)


def absolute(path: Path) -> Path:
    """Return an absolute path.

    `Path.resolve` is not used because it follows links and therefore changes the names of files.
    """
    return Path(os.path.abspath(path))  # noqa: PTH100 - see above
