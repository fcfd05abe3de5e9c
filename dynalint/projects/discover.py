"""Find the files to check, based on paths, `.gitignore` files and excludes.

Each file is returned only once, in an order that does not depend on the order of the paths. Links to directories are
not followed, so there are no cycles. Links to files are followed if they stay inside the project.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pathspec import GitIgnoreSpec

from dynalint.config import Settings, show_path
from dynalint.errors import UsageError
from dynalint.projects.patterns import compile_patterns
from dynalint.projects.reading import is_inside, link_out, project_root, read_bounded

_SUFFIXES = (".py", ".ipynb")
# Real files have at most a few hundred lines. Each line is matched against every file.
_MOST_GITIGNORE_BYTES = 512 << 10
_MOST_PATTERNS = 5000
_MOST_NOTES = 10

SettingsFor = Callable[[Path], Settings]


@dataclass(frozen=True, slots=True)
class Discovered:
    """The files to check, absolute and sorted.

    `notes` are sentences about named paths that are skipped, and `failures` are sentences about paths that cannot be
    read.
    """

    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


def discover(paths: Sequence[Path], settings_for: SettingsFor, *, force_exclude: bool = False) -> Discovered:
    """Find the Python files and notebooks in `paths`, which are absolute paths of files and directories.

    A named file is included regardless of its suffix, and even if it is excluded, unless `force_exclude` is true. If a
    named directory is excluded by a pattern, that pattern is ignored inside it. `settings_for` returns the settings for
    the files in a directory.

    Raises:
        UsageError: If a path does not exist.
    """
    walk = _Walk(settings_for)
    for path in sorted({Path(os.path.normpath(path)) for path in paths}):
        walk.named(path, force_exclude=force_exclude)
    files = sorted(_without_aliases(walk.files, walk.linked), key=lambda file: file.parts)
    return Discovered(tuple(files), (*walk.notes, *walk.notes_on_links()), tuple(walk.failures))


def is_excluded(path: Path, settings_for: SettingsFor) -> bool:
    """Return whether the settings exclude the file at the absolute path `path`.

    `.gitignore` files are not considered.
    """
    return _covers(_excludes(settings_for(path.parent), path.parent, asked_for=False), path)


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Compiled patterns from a single source, relative to the directory `base`."""

    base: Path
    spec: GitIgnoreSpec

    def verdict(self, path: Path, *, directory: bool) -> bool | None:
        """Return whether `path` is excluded, or None if no pattern matches it."""
        shown, above = str(path), os.path.join(self.base, "")  # noqa: PTH118 - with a separator at the end
        if shown.startswith(above):  # Comparing text is ten times faster.
            relative = shown[len(above) :].replace(os.sep, "/")
        else:
            try:
                relative = path.relative_to(self.base).as_posix()
            except ValueError:
                return None
        return self.spec.check_file(f"{relative}/" if directory else relative).include


class _Walk:
    def __init__(self, settings_for: SettingsFor) -> None:
        self.settings_for = settings_for
        self.files: dict[Path, None] = {}
        self.linked: set[Path] = set()
        self.links_out: list[Path] = []
        self.notes: dict[str, None] = {}  # In order, without duplicates.
        self.failures: list[str] = []

    def named(self, path: Path, *, force_exclude: bool) -> None:
        try:
            is_directory, exists = path.is_dir(), path.exists()
        except (OSError, ValueError) as fault:  # The name is too long or contains a null byte.
            reason = getattr(fault, "strerror", None) or fault
            raise UsageError(f"{show_path(path, Path.cwd())}: cannot be read: {reason}.") from fault
        if not exists:
            raise UsageError(f"{show_path(path, Path.cwd())}: no such file or directory.")
        link = link_out(path)
        if link is not None:
            self.links_out.append(link)
        elif is_directory:
            self.directory(path)
        else:
            self.named_file(path, force_exclude=force_exclude)

    def notes_on_links(self) -> Iterator[str]:
        links = sorted({show_path(link, Path.cwd()) for link in self.links_out})
        for link in links[:_MOST_NOTES]:
            yield f"{link}: skipped, because the link leads out of the project; name its target instead."
        if len(links) > _MOST_NOTES:
            yield f"{len(links) - _MOST_NOTES} more links that lead out of the project were skipped."

    def named_file(self, path: Path, *, force_exclude: bool) -> None:
        if path.suffix == ".pyi":
            self.note(path, "skipped, because a stub contains no code that runs.")
        elif not force_exclude or not is_excluded(path, self.settings_for):
            self.add(path, linked=_real(path) != path)

    def directory(self, root: Path) -> None:
        linked = _real(root) != root
        project = project_root(_real(root))
        pending = [(root, self.outer_gitignores(root))]
        known: Settings | None = None
        excludes: list[_Patterns] = []
        while pending:
            directory, gitignores = pending.pop()
            settings = self.settings_for(directory)
            if settings is not known:
                known, excludes = settings, _excludes(settings, root)
            if settings.respect_gitignore:
                gitignores = (*gitignores, *self.gitignore(directory / ".gitignore", directory, None))
            for entry in self.entries(directory):
                path = directory / entry.name
                is_directory = entry.is_dir(follow_symlinks=False)
                if not is_directory and not (entry.name.endswith(_SUFFIXES) and _is_file(entry)):
                    continue
                if _covers(excludes, path, directory=is_directory):
                    continue
                if settings.respect_gitignore and _ignored(gitignores, path, directory=is_directory):
                    continue
                if entry.is_symlink() and not is_inside(path, project):
                    self.links_out.append(path)
                elif not is_directory:
                    self.add(path, linked=linked or entry.is_symlink())
                elif not _is_environment(path):
                    pending.append((path, gitignores))

    def entries(self, directory: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(directory) as found:
                return list(found)
        except OSError as fault:
            shown = show_path(directory, Path.cwd())
            self.failures.append(f"{shown}: cannot read the directory: {fault.strerror or fault}.")
            return []

    def outer_gitignores(self, root: Path) -> tuple[_Patterns, ...]:
        """Return the patterns in the `.gitignore` files above `root`, up to the top of its repository."""
        top = next((parent for parent in (root, *root.parents) if (parent / ".git").exists()), None)
        if top is None:
            return ()
        outer = self.gitignore(top / ".git" / "info" / "exclude", top, root)
        for parent in reversed(root.parents):
            if parent.is_relative_to(top):
                outer += self.gitignore(parent / ".gitignore", parent, root)
        return outer

    def gitignore(self, file: Path, base: Path, root: Path | None) -> tuple[_Patterns, ...]:
        try:
            if file.name == ".gitignore" and file.is_symlink():
                self.note(file, "skipped: it is a link, which git does not follow either.")
                return ()
            lines = tuple(read_bounded(file, _MOST_GITIGNORE_BYTES).decode(errors="replace").splitlines())
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as fault:
            self.note(file, f"skipped: {fault.strerror or fault}.")
            return ()
        if len(lines) > _MOST_PATTERNS:
            self.note(file, f"skipped: it has more than {_MOST_PATTERNS} lines.")
            return ()
        return (_Patterns(base, _compile(lines, None if root is None else root.relative_to(base).as_posix())),)

    def note(self, path: Path, text: str) -> None:
        self.notes[f"{show_path(path, Path.cwd())}: {text}"] = None

    def add(self, path: Path, *, linked: bool) -> None:
        self.files[path] = None
        if linked:
            self.linked.add(path)


def _covers(patterns: Iterable[_Patterns], path: Path, *, directory: bool = False) -> bool:
    return any(entry.verdict(path, directory=directory) for entry in patterns)


def _ignored(gitignores: Sequence[_Patterns], path: Path, *, directory: bool) -> bool:
    # As in git, the deepest file with a matching pattern decides.
    verdicts = (entry.verdict(path, directory=directory) for entry in reversed(gitignores))
    return next((verdict for verdict in verdicts if verdict is not None), False)


@cache
def _compile(lines: tuple[str, ...], asked_for: str | None) -> GitIgnoreSpec:
    """Compile patterns, except those that match the directory `asked_for`, which is relative to their base."""
    if asked_for is not None:
        lines = tuple(line for line in lines if not compile_patterns([line]).match_file(f"{asked_for}/"))
    return compile_patterns(lines)


def _excludes(settings: Settings, root: Path, *, asked_for: bool = True) -> list[_Patterns]:
    """Return the excludes that apply below `root`, without the patterns that match it if it was named."""
    by_base: dict[Path, list[str]] = {}
    for glob in (*settings.exclude, *settings.extend_exclude):
        # Patterns from outside the tree are applied relative to the named directory.
        by_base.setdefault(glob.base if root.is_relative_to(glob.base) else root, []).append(glob.pattern)
    return [
        _Patterns(base, _compile(tuple(lines), root.relative_to(base).as_posix() if asked_for else None))
        for base, lines in by_base.items()
    ]


def _without_aliases(files: Iterable[Path], linked: set[Path]) -> Iterator[Path]:
    """Yield the files, leaving out links to other files that are yielded."""
    real = {file for file in files if file not in linked}
    yield from real
    for file in sorted(linked):
        target = _real(file)
        if target not in real:
            real.add(target)
            yield file


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # `resolve` raises on circular links.


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # Circular links raise this.
        return False


def _is_environment(folder: Path) -> bool:
    """Return whether a folder is a virtual environment, whatever its name. Return False if the path is too long."""
    try:
        return (folder / "pyvenv.cfg").exists()
    except OSError:
        return False
