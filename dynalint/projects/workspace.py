"""The input for a run: the files to check, with their settings. Nothing here imports the analysis."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dynalint.analysis.source import SourceFile, parse_source
from dynalint.config import Configuration, Settings, show_path
from dynalint.projects.discover import Discovered, discover, is_excluded
from dynalint.projects.reading import is_inside, project_root

if TYPE_CHECKING:
    from dynalint.confirm.options import Execution


@dataclass(frozen=True, slots=True)
class Workspace:
    """The input for a run: the files to check (absolute, sorted), their settings, and the settings of the run itself.

    `named` are the paths that the user gave. `texts` replaces the contents of files, and displayed paths are relative
    to `directory`. `unreadable` is a text that could not be decoded. If `ignore_suppressions` is true, comments silence
    nothing. `around` are additional files to analyse. `execution` describes how code is run, or is None for the
    default.
    """

    files: tuple[Path, ...]
    configuration: Configuration
    settings: Settings
    directory: Path
    named: tuple[Path, ...] = ()
    texts: Mapping[Path, str] = field(default_factory=dict)
    unreadable: SourceFile | None = None
    ignore_suppressions: bool = False
    around: tuple[Path, ...] = ()
    execution: Execution | None = None

    @property
    def analysed(self) -> tuple[Path, ...]:
        """All files to analyse, in the same order as for a whole project."""
        return tuple(sorted({*self.files, *self.around}, key=lambda path: path.parts)) if self.around else self.files

    @property
    def is_whole(self) -> bool:
        """Whether all projects are checked completely, so that no file is left out."""
        tops = {project_root(folder) for folder in {path.parent for path in self.files}}
        return all(any(top.is_relative_to(path) for path in self.named) for top in tops)

    def shown(self, path: Path) -> str:
        """Return a file's path as displayed in findings."""
        return show_path(path, self.directory)

    def enabled(self, path: Path) -> frozenset[str]:
        """Return the codes that are enabled for a file."""
        return self.configuration.for_file(path).selection.enabled_for(path)

    def fixable(self, path: Path) -> frozenset[str]:
        """Return the codes whose findings may be fixed in a file."""
        return self.configuration.for_file(path).selection.fixable


def absolute(path: Path, directory: Path) -> Path:
    """Return an absolute path.

    The result is below `directory` if the file is in that folder, possibly through links.
    """
    path = Path(os.path.normpath(directory / path.expanduser()))
    if not path.is_relative_to(directory):
        real = Path(os.path.realpath(path))
        return real if real.is_relative_to(directory) else path
    return path


def open_workspace(
    paths: Sequence[Path], configuration: Configuration, directory: Path
) -> tuple[Workspace, Discovered]:
    """Find the files to check in `paths`, or in the paths that the configuration includes, or in the working directory.

    Raises:
        UsageError: If a path does not exist.
        ConfigError: If a configuration file is invalid.
    """
    named = [absolute(path, directory) for path in paths]
    settings = configuration.for_run(named)
    included, notes = _included(settings, directory)
    wanted = tuple(named) or (included if settings.include else (directory,))
    found = discover(wanted, configuration.for_directory, force_exclude=settings.force_exclude)
    if not named:
        found = replace(found, notes=(*notes, *found.notes))
    return Workspace(found.files, configuration, settings, directory, wanted), found


def _included(settings: Settings, directory: Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Return the paths that the configuration includes, and a sentence about each path outside the project.

    Only the user may decide to check or fix files outside the project.
    """
    root = project_root(Path(os.path.realpath(settings.root)))
    inside = tuple(path for path in settings.include if is_inside(path, root))
    notes = tuple(
        f"{show_path(path, directory)}: skipped: `include` leads out of the project; name the path on the command line."
        for path in settings.include
        if path not in inside
    )
    return inside, notes


def text_workspace(path: Path, data: bytes, configuration: Configuration, directory: Path) -> Workspace:
    """Return a workspace with a single file whose contents are `data`, regardless of what is on disk.

    Raises:
        ConfigError: If a configuration file is invalid.
    """
    path = absolute(path, directory)
    settings = configuration.for_file(path)
    if settings.force_exclude and is_excluded(path, configuration.for_directory):
        return Workspace((), configuration, settings, directory)
    file = parse_source(path, data)
    if file.error is not None and not file.text:
        return Workspace((), configuration, settings, directory, unreadable=file)
    return Workspace((path,), configuration, settings, directory, (path,), {path: file.text})


def search_folders(settings: Settings) -> tuple[Path, ...]:
    """Return the folders where absolute imports may start, in addition to the packages of the checked files."""
    if settings.config_file is None:
        return ()
    return tuple(folder for folder in (settings.root, settings.root / "src") if folder.is_dir())
