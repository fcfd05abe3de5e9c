"""Find all files in the projects that contain the given files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from dynalint.config import Configuration
from dynalint.projects.discover import discover
from dynalint.projects.reading import is_inside, is_marked, project_root


def project_files(named: Iterable[Path], configuration: Configuration) -> tuple[Path, ...]:
    """Return the project files that the settings include, or all files in the projects if they include none."""
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
    elif not is_marked(folder):  # There is no project, so use the package or the scripts around the file.
        yield from sorted(root.glob("*.py"))
        if folder != root:
            yield root / folder.relative_to(root).parts[0]
        return
    yield root
