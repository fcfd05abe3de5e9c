"""Write files atomically, and only if their contents have not changed since they were read.

The new contents are written to a temporary file in the same folder, flushed to disk, and renamed in a single step. A
reader sees either the old contents or the new contents, never a mixture, even if the process is killed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dynalint.errors import DynalintError
from dynalint.projects.reading import MOST_NOTEBOOK_BYTES, is_inside, project_root, read_bounded


class WriteError(DynalintError):
    """A file that was not written. The message is a sentence that gives its name and the reason."""


@dataclass(frozen=True, slots=True)
class FileWrite:
    """Replace `before` with `after` at `path`. `name` is the path as shown to the user."""

    path: Path
    name: str
    before: bytes
    after: bytes


def write_together(writes: Sequence[FileWrite]) -> None:
    """Replace either all of the files or none of them.

    Each new file is complete on disk before the first file is replaced. If a replacement fails, the old contents are
    restored.

    Raises:
        WriteError: If nothing was written. The message names the file at fault and the reason.
    """
    targets = [_target(write) for write in writes]
    staged = [_beside(target) for target in targets]
    done: list[FileWrite] = []
    try:
        for write, target, temporary in zip(writes, targets, staged, strict=True):
            _stage(write, target, write.after, temporary)
        for write, target, temporary in zip(writes, targets, staged, strict=True):
            _check_unchanged(write, target)
            _replace(write, temporary, target)
            done.append(write)
    except BaseException:
        for write in reversed(done):
            _put_back(write)
        raise
    finally:
        for temporary in staged:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def write_groups(groups: Sequence[Sequence[Path]], writes: Mapping[Path, FileWrite]) -> tuple[set[Path], list[str]]:
    """Write each group of files together.

    Return the paths that were written and a sentence for each group that failed.
    """
    written: set[Path] = set()
    failures: list[str] = []
    for group in groups:
        try:
            write_together([writes[path] for path in group])
        except WriteError as fault:
            others = [writes[path].name for path in group if not str(fault).startswith(writes[path].name)]
            along = f"; {', '.join(others)} not written either, because the fix changes them together" if others else ""
            failures.append(f"{fault}{along}")
        else:
            written.update(group)
    return written, failures


def _target(write: FileWrite) -> Path:
    """Return the file to replace, with links resolved, after checking that it can be replaced."""
    try:
        target = write.path.resolve(strict=True)
        state = target.stat()
        inside = is_inside(target, project_root(write.path.parent))
    except FileNotFoundError:
        raise WriteError(f"{write.name}: not fixed: the file is gone") from None
    except (OSError, RuntimeError) as fault:
        raise WriteError(f"{write.name}: not fixed: {_reason(fault)}") from None
    if not inside:
        raise WriteError(f"{write.name}: not fixed: it is a link to a file outside the project")
    if not stat.S_ISREG(state.st_mode):
        raise WriteError(f"{write.name}: not fixed: it is not a regular file")
    # A file can be replaced without write permission, so check it explicitly. It may be read-only to protect it.
    if not state.st_mode & 0o222 or not os.access(target, os.W_OK):
        raise WriteError(f"{write.name}: not fixed: the file is read-only")
    _check_unchanged(write, target)
    return target


def _beside(target: Path) -> Path:
    """Return an unpredictable new name in the same folder, for a file that will replace `target`."""
    return target.with_name(f".dynalint-{secrets.token_hex(8)}.tmp")


def _check_unchanged(write: FileWrite, target: Path) -> None:
    try:
        current = read_bounded(target, MOST_NOTEBOOK_BYTES)
    except FileNotFoundError:
        raise WriteError(f"{write.name}: not fixed: the file is gone") from None
    except OSError as fault:
        raise WriteError(f"{write.name}: not fixed: {_reason(fault)}") from None
    if current != write.before:
        raise WriteError(f"{write.name}: not fixed: the file was changed while dynalint ran; run it again")


def _stage(write: FileWrite, target: Path, data: bytes, temporary: Path) -> None:
    """Write `data` to the new file `temporary` next to `target`, with the same mode and owner as `target`."""
    try:
        state = target.stat()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            if hasattr(os, "fchown") and (state.st_uid, state.st_gid) != _owner(file.fileno()):
                os.fchown(file.fileno(), state.st_uid, state.st_gid)
            if hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), stat.S_IMODE(state.st_mode))
            os.fsync(file.fileno())
    except OSError as fault:
        raise WriteError(f"{write.name}: not fixed: cannot write to its folder: {_reason(fault)}") from None


def _owner(descriptor: int) -> tuple[int, int]:
    state = os.fstat(descriptor)
    return state.st_uid, state.st_gid


def _replace(write: FileWrite, temporary: Path, target: Path) -> None:
    try:
        temporary.replace(target)
    except OSError as fault:
        raise WriteError(f"{write.name}: not fixed: {_reason(fault)}") from None
    if hasattr(os, "O_DIRECTORY"):
        # Flush the folder so that the new name also survives a power cut. Some file systems do not support this.
        with contextlib.suppress(OSError):
            folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _put_back(write: FileWrite) -> None:
    """Undo one replacement. If this fails too, report that only part of a fix is on disk."""
    target = write.path.resolve()
    temporary = _beside(target)
    try:
        if read_bounded(target, MOST_NOTEBOOK_BYTES) == write.after:
            _stage(write, target, write.before, temporary)
            _replace(write, temporary, target)
    except (OSError, WriteError) as fault:
        raise WriteError(
            f"{write.name}: only part of a fix for more than one file was written, and this cannot be undone: {fault}"
        ) from None


def _reason(fault: BaseException) -> str:
    return str(getattr(fault, "strerror", None) or fault)
