"""Run git in untrusted repositories.

A repository's own configuration, attributes and hooks name programs that git starts on many occasions: to compare a
file with the index (`filter.*.clean`), to find changes (`core.fsmonitor`), to show them (`diff.external`, pagers), and
to fetch objects that are missing in a partial clone (`core.sshCommand`, `ext::` addresses, `remote.*.uploadpack`).
dynalint therefore uses git only to read its database and index, with plumbing commands that need nothing else, and
gives it an empty work tree. `reading.py` reads files. Everything else that could start a program, including all
fetching, is turned off by name. The time, memory and output of git are limited, because a repository can also contain a
tree with a billion names.

The variables in the user's shell and the user's own git configuration apply. Variables that specify the repository's
location are ignored, because git sets them in hooks, and dynalint always uses the repository that contains the folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# Limits in seconds, bytes of memory and bytes of output. The largest repositories stay far below them.
_LONGEST = 20.0
_MOST_MEMORY = 4 << 30
_MOST_OUTPUT = 256 << 20
_MOST_COMPLAINTS = 1 << 20

_SETTINGS = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "core.pager=cat",
    "core.askPass=",
    "credential.helper=",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
)
_VARIABLES = {
    "GIT_ALLOW_PROTOCOL": "none",  # Overrides `protocol.*.allow`, which a repository can set.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
_WHERE = frozenset({
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_DIR", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_WORK_TREE",
})  # fmt: skip


class GitError(Exception):
    """git could not answer. The message completes a sentence that starts with "git"."""


class GitExitError(GitError):
    """git ran and reported an error."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository with a work tree. `top` is its root, with links resolved, and `directory` is its git directory."""

    top: Path
    directory: Path

    @classmethod
    def around(cls, folder: Path) -> Repository:
        """Return the repository that contains `folder`, which must exist.

        Raises:
            GitError: If there is no repository, it has no work tree, it belongs to another user, or git cannot be run.
        """
        top, directory = (
            os.fsdecode(_run(folder, {}, ["rev-parse", wanted]).removesuffix(b"\n").removesuffix(b"\r"))
            for wanted in ("--show-toplevel", "--absolute-git-dir")
        )
        return cls(Path(os.path.realpath(top)), Path(directory))

    def ask(self, *arguments: str, most: int = _MOST_OUTPUT) -> bytes:
        """Return the output of a git command, at most `most` bytes. Names are relative to the repository's root.

        Raises:
            GitExitError: If git reported an error.
            GitError: If git cannot be started, takes too long, or prints too much.
        """
        # The work tree is a file, so git finds nothing in it.
        empty = {"GIT_DIR": str(self.directory), "GIT_WORK_TREE": os.devnull}
        return _run(Path(self.directory.anchor), empty, arguments, most)


def is_tracked(path: Path) -> bool | None:
    """Return whether the repository tracks `path` or anything below it, or None if git cannot tell.

    Links to parent folders are resolved. The last component is not, because `.venv/bin/python`, for example, links to a
    file outside of any repository. If a link in the path is tracked, so is the path, because the repository determines
    where it leads. Case is ignored, as on many file systems. A result of False only describes the index, which was
    written by whoever created the `.git` folder.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` follows the last link as well
    links = [folder for folder in path.parents if folder.is_symlink()]
    answers = {_has(Path(os.path.realpath(one.parent), one.name)) for one in (path, *links)}
    return True if True in answers else False if False in answers else None


def _has(path: Path) -> bool | None:
    folder = next(folder for folder in path.parents if folder.is_dir())
    try:
        repository = Repository.around(folder)
        name = path.relative_to(repository.top).as_posix()
        return bool(repository.ask("ls-files", "-z", "--cached", "--", f":(literal,icase){name}"))
    except (GitError, ValueError):  # ValueError means that the work tree is elsewhere, or a null byte.
        return None


def _run(folder: Path, where: dict[str, str], arguments: Sequence[str], most: int = _MOST_OUTPUT) -> bytes:
    """Run git in `folder`. `where` replaces the user's variables that say where the repository is."""
    program = _program()
    kept = {name: value for name, value in os.environ.items() if name not in _WHERE}
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    with tempfile.TemporaryFile() as complaints:
        try:
            process = subprocess.Popen(
                [program, "--no-pager", *settings, *arguments],
                cwd=folder,
                env={**kept, **_VARIABLES, **where},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaints,
            )
        except (OSError, ValueError) as fault:  # ValueError means that an argument contains a null byte.
            raise GitError(f"cannot be started: {getattr(fault, 'strerror', None) or fault}") from fault
        _bound(process.pid)
        output, late = _output(process, most)
        if late:
            raise GitError(f"did not answer within {_LONGEST:.0f} seconds")
        if len(output) > most:
            raise GitError(f"printed more than {most} bytes")
        if process.returncode:
            complaints.seek(0)
            complaint = " ".join(complaints.read(1000).decode(errors="replace").split())
            raise GitExitError(f"says: {complaint}" if complaint else f"exited with code {process.returncode}")
        return output


@cache
def _program() -> str:
    """Return the path of git, searching only the absolute folders in PATH."""
    folders = [folder for folder in os.get_exec_path() if Path(folder).is_absolute()]
    program = shutil.which("git", path=os.pathsep.join(folders))
    if program is None:
        raise GitError("cannot be started: it is not on the search path")
    return program


def _output(process: subprocess.Popen[bytes], most: int) -> tuple[bytes, bool]:
    """Return a process's output, cut off shortly after `most` bytes, and whether the process took too long."""
    timer = threading.Timer(_LONGEST, process.kill)
    timer.start()
    try:
        with process:
            assert process.stdout is not None
            output = process.stdout.read(most + 1)
            if len(output) > most:
                process.kill()
            process.wait()
            return output, timer.finished.is_set()
    finally:
        timer.cancel()
        process.kill()


def _bound(process: int) -> None:
    """Limit a process's memory and the size of the files that it writes, such as its standard error."""
    if sys.platform == "linux":
        import resource

        with contextlib.suppress(OSError):  # The process has already ended.
            resource.prlimit(process, resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
            resource.prlimit(process, resource.RLIMIT_FSIZE, (_MOST_COMPLAINTS, _MOST_COMPLAINTS))
