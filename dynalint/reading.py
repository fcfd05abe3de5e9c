"""Reading files of a project that nobody vouches for: regular ones, of bounded size, inside the project.

A repository may hold a link to `/dev/zero`, a pipe that nobody writes to, or a link to what is none of its business.
Every file that the code under check may have put in place is read through here, so that such a file costs only itself.
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

# The longest modules that programs write have four MB or so, and a tree takes some fifty times the text.
MOST_BYTES = 4 << 20
# Notebooks carry the pictures of their outputs.
MOST_NOTEBOOK_BYTES = 64 << 20

_MARKS_OF_A_PROJECT = ("pyproject.toml", "dynalint.toml", "setup.py", "setup.cfg")


def read_bounded(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file of at most `most` bytes.

    Raises:
        OSError: it cannot be read, is something else than a regular file (a device, a pipe, a folder), or is larger;
            `strerror` says which.
    """
    # Before it is opened, since opening alone can act on a device; and again then, since it may be another by now.
    _check_regular(path.stat(), path)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        state = os.fstat(file.fileno())
        _check_regular(state, path)
        # What /proc holds says that it is empty, and is not.
        data = file.read(most + 1) if state.st_size <= most else b""
    if state.st_size > most or len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MiB", str(path))
    return data


def read_json(path: Path) -> Any:
    """Return what a JSON file holds.

    Raises:
        OSError: it cannot be read, see `read_bounded`.
        ValueError: it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(read_bounded(path, MOST_NOTEBOOK_BYTES))
    except RecursionError as fault:
        raise ValueError(f"{path} is nested too deeply") from fault


def _check_regular(state: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def hard_links(path: Path) -> int:
    """Return how many names the file that a path leads to has; 0 where there is none that can be looked at."""
    try:
        return path.stat().st_nlink
    except (OSError, ValueError):
        return 0


def is_inside(path: Path, root: Path) -> bool:
    """Whether a path, with all links followed, is below the folder `root`, links followed as well."""
    try:
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))
    except (OSError, ValueError):  # a null byte in it, say
        return False


def link_out(path: Path) -> Path | None:
    """Return the first link on the way to an absolute path that leads out of the project it stands in, None without.

    A folder that is linked from outside of any project, as the user's own links to projects are, leads out of none.
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
    """Return the folder that holds the project which the absolute `folder` belongs to.

    That is the top of its git repository; where there is none, the nearest folder above with a file that marks a Python
    project; else the one that holds the outermost package, by `__init__.py`. Whatever stands in a project can make this
    smaller, never larger: what is above is its user's. The user's home, and what is above it, is no project of what
    stands below, even if its settings are kept in git.
    """
    return _marked_root(folder) or _nearest(folder, lambda one: not (one / "__init__.py").exists()) or folder


def is_marked(folder: Path) -> bool:
    """Whether a git repository, or a file that marks a project, tells where the project of a folder ends."""
    return _marked_root(folder) is not None


@cache
def _marked_root(folder: Path) -> Path | None:
    return _nearest(folder, lambda one: (one / ".git").exists()) or _nearest(
        folder, lambda one: any((one / name).exists() for name in _MARKS_OF_A_PROJECT)
    )


def _nearest(folder: Path, has_mark: Callable[[Path], bool]) -> Path | None:
    home = Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 - which raises where there is no home
    barred = {_identity(one) for one in (home, *home.parents)}
    for one in (folder, *folder.parents):
        if one != folder and _identity(one) in barred:
            return None
        if has_mark(one):
            return one
    return None


def _identity(folder: Path) -> tuple[int, int] | Path:
    """What tells a folder from others by whatever links it is named: to resolve each on a deep way takes far longer."""
    try:
        state = folder.stat()
    except OSError:
        return folder
    return state.st_dev, state.st_ino
