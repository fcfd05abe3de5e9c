"""Read files in untrusted projects. They must be regular files, have a limited size, and be inside the project.

A repository may contain a link to `/dev/zero`, a pipe that is never written to, or a link to somebody else's file.
Every file that could have been created by the code being checked is read through this module, so that a bad file does
not affect the rest of the run.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

# The longest generated modules have about 4 MB, and a tree takes about fifty times as much memory as its text.
MOST_BYTES = 4 << 20
# Notebooks contain images.
MOST_NOTEBOOK_BYTES = 64 << 20

_MARKS_OF_A_PROJECT = ("pyproject.toml", "dynalint.toml", "setup.py", "setup.cfg")


def read_bounded(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the contents of a regular file that has at most `most` bytes.

    Raises:
        OSError: If the file cannot be read, is too large, or is not a regular file but, for example, a device, a pipe
            or a folder. `strerror` gives the reason.
    """
    # Check before opening the file, because opening a device can have effects, and check again afterwards, because the
    # file may have been replaced.
    _check_regular(path.stat(), path)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        state = os.fstat(file.fileno())
        _check_regular(state, path)
        # Files in /proc report a size of 0 although they are not empty.
        data = file.read(most + 1) if state.st_size <= most else b""
    if state.st_size > most or len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MiB", str(path))
    return data


def read_json(path: Path) -> Any:
    """Return the contents of a JSON file.

    Raises:
        OSError: If the file cannot be read. See `read_bounded`.
        ValueError: If the file is not JSON, or is nested too deeply.
    """
    try:
        return json.loads(read_bounded(path, MOST_NOTEBOOK_BYTES))
    except RecursionError as fault:
        raise ValueError(f"{path} is nested too deeply") from fault


def _check_regular(state: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def hard_links(path: Path) -> int:
    """Return the number of hard links to the file at `path`, or 0 if the file cannot be examined."""
    try:
        return path.stat().st_nlink
    except (OSError, ValueError):
        return 0


def is_inside(path: Path, root: Path) -> bool:
    """Return whether a path is below the folder `root`, with all links resolved."""
    try:
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))
    except (OSError, ValueError):  # For example, the path contains a null byte.
        return False


def link_out(path: Path) -> Path | None:
    """Return the first link in an absolute path that leads out of its project, or None.

    Links outside of all projects, such as the user's own links to projects, do not count.
    """
    if os.path.realpath(path) == str(path):
        return None
    real = shown = Path(path.anchor)
    for part in path.parts[1:]:
        shown = shown / part
        target = Path(os.path.realpath(real / part))
        if target != real / part:
            root = _marked_root(real) if target.is_dir() else project_root(real)
            if root is not None and not target.is_relative_to(root):
                return shown
        real = target
    return None


@cache
def project_root(folder: Path) -> Path:
    """Return the root of the project that contains the absolute path `folder`.

    This is the root of its git repository. If there is no repository, it is the nearest folder above that has a file
    marking a Python project, or else the folder that contains the outermost package. Files in a project can make the
    project smaller, but never larger, because the folders above belong to the user. The user's home folder and the
    folders above it are never a project root, even if the home folder is a git repository.
    """
    return _marked_root(folder) or _nearest(folder, lambda one: not _is_in_package(one)) or folder


def _is_in_package(folder: Path) -> bool:
    """Return whether a folder is a package, or lies directly in one, as a subpackage without `__init__.py` does."""
    return any((one / "__init__.py").exists() for one in (folder, folder.parent))


def is_marked(folder: Path) -> bool:
    """Return whether a folder's project is determined by a git repository or by a file that marks a Python project."""
    return _marked_root(folder) is not None


@cache
def _marked_root(folder: Path) -> Path | None:
    return _nearest(folder, lambda one: (one / ".git").exists()) or _nearest(
        folder, lambda one: any((one / name).exists() for name in _MARKS_OF_A_PROJECT)
    )


def _nearest(folder: Path, has_mark: Callable[[Path], bool]) -> Path | None:
    home = Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 - which raises if there is no home folder
    barred = {_identity(one) for one in (home, *home.parents)}
    for one in (folder, *folder.parents):
        if one != folder and _identity(one) in barred:
            return None
        if has_mark(one):
            return one
    return None


def _identity(folder: Path) -> tuple[int, int] | Path:
    """Return a key that identifies a folder regardless of links, because resolving a deep path takes long."""
    try:
        state = folder.stat()
    except OSError:
        return folder
    return state.st_dev, state.st_ino
