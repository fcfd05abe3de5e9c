"""A view of the file system that contains only readable paths. Uses only the standard library.

It is used if the kernel has namespaces but Landlock is missing or disabled. Paths that are not listed do not exist.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from . import syscalls

_SIZE = 1 << 20
# The number of links that the kernel follows in a path.
_MOST_LINKS = 40


def show_only(root: Path, paths: Iterable[Path]) -> None:
    """Restrict this process, in its own mount namespace, to `paths`, which stay reachable under all their names.

    `root` is an empty folder that was created for this. Raises OSError if that fails.
    """
    here = os.getcwd()  # noqa: PTH109 - a string, because the path may be invalid afterwards
    syscalls.mount_memory(root, _SIZE)
    # Parent folders come first, because mounting a folder includes everything below it.
    for path in sorted(dict.fromkeys(paths), key=lambda path: len(path.parts)):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            _show(root, path)
    syscalls.mount_read_only(root)
    os.chroot(root)
    try:
        os.chdir(here)
    except OSError:
        os.chdir("/")


def _show(root: Path, path: Path) -> None:
    """Add a file or folder at the same location below `root`, with the folders and links that lead there."""
    at, left, links = Path("/"), list(path.parts[1:]), 0
    while left:
        step = at / left.pop(0)
        if step.name == "..":
            at = at.parent
        elif step.is_symlink():
            leads_to = step.readlink()
            place = _below(root, step)
            if not os.path.lexists(place):
                place.symlink_to(leads_to)
            at = Path("/") if leads_to.is_absolute() else at
            left = [part for part in leads_to.parts if part != "/"] + left
            links += 1
            if links > _MOST_LINKS:
                return
        else:
            at = step
            if left and not _below(root, at).exists():
                _below(root, at).mkdir()
    place = _below(root, at)
    if place.exists() and place.samefile(at):
        return
    if at.is_dir():
        place.mkdir(exist_ok=True)
    else:
        at.stat()
        place.touch()
    syscalls.mount_again(at, place)


def _below(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")
