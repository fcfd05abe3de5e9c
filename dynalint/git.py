"""Asking git about a repository that nobody vouches for.

A repository's own configuration, attributes and hooks name programs, and git starts them at many occasions: to compare
a file with the index (`filter.*.clean`), to find out what has changed (`core.fsmonitor`), to show it (`diff.external`,
pagers), to fetch what a partial clone lacks (`core.sshCommand`, `ext::` addresses, `remote.*.uploadpack`). Here git
reads nothing but its database and its index, by plumbing that needs no more, and gets an empty work tree: what is in
files is for `reading.py` to read. What would still start a program is turned off by name, all fetching among it. What
git takes is bounded, in time, memory and output, since a repository can also hold a tree of a billion names.

The variables of the user's shell and the configuration of the user's account are the user's own and hold, but for those
that say where the repository is, which a hook's git sets: it is the one that the folder lies in.
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

# Seconds, bytes of memory and bytes of output: far more than the largest repositories take.
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
    "GIT_ALLOW_PROTOCOL": "none",  # before `protocol.*.allow`, which a repository can set
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
_WHERE = frozenset({
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_DIR", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_WORK_TREE",
})  # fmt: skip


class GitError(Exception):
    """Git gives no answer; the text ends a sentence that begins with "git"."""


class GitExitError(GitError):
    """Git ran, and ended with an error of its own."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository with a work tree, whose top is `top`, links followed; `directory` is where its database lies."""

    top: Path
    directory: Path

    @classmethod
    def around(cls, folder: Path) -> Repository:
        """Return the repository that the existing `folder` lies in.

        Raises:
            GitError: there is none, it has no work tree, it belongs to somebody else, or git cannot be asked.
        """
        top, directory = (
            os.fsdecode(_run(folder, {}, ["rev-parse", wanted]).removesuffix(b"\n").removesuffix(b"\r"))
            for wanted in ("--show-toplevel", "--absolute-git-dir")
        )
        return cls(Path(os.path.realpath(top)), Path(directory))

    def ask(self, *arguments: str, most: int = _MOST_OUTPUT) -> bytes:
        """Return what a command of git's prints, at most `most` bytes; names are relative to the top.

        Raises:
            GitExitError: git ended with an error.
            GitError: git cannot be started, takes too long, or says too much.
        """
        # A file is no folder to look for anything in, whatever it is called.
        empty = {"GIT_DIR": str(self.directory), "GIT_WORK_TREE": os.devnull}
        return _run(Path(self.directory.anchor), empty, arguments, most)


def is_tracked(path: Path) -> bool | None:
    """Whether the repository around `path` has it, or anything below it, in its index; None where git cannot tell.

    A path is asked for under the name that its folder really has: links on the way to it are followed, the last
    component is not, as `.venv/bin/python` is a link to what is no repository's. If a link on the way is itself
    tracked, then so is the path, since the repository says where it leads. Upper and lower case are taken for the same,
    as many file systems do. False is an answer about the index, which whoever made the `.git` folder has written.
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
    except (GitError, ValueError):  # ValueError: the work tree is said to be elsewhere, or a null byte in the name
        return None


def _run(folder: Path, where: dict[str, str], arguments: Sequence[str], most: int = _MOST_OUTPUT) -> bytes:
    """Run git in `folder`, with the variables `where` in place of those that say where the repository is."""
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
        except (OSError, ValueError) as fault:  # ValueError: a null byte in an argument
            raise GitError(f"cannot be started: {getattr(fault, 'strerror', None) or fault}") from fault
        _bound(process.pid)
        output, late = _output(process, most)
        if late:
            raise GitError(f"gives no answer within {_LONGEST:.0f} seconds")
        if len(output) > most:
            raise GitError(f"says more than {most} bytes")
        if process.returncode:
            complaints.seek(0)
            said = " ".join(complaints.read(1000).decode(errors="replace").split())
            raise GitExitError(f"says: {said}" if said else f"ends with code {process.returncode}")
        return output


@cache
def _program() -> str:
    """Return where git is, by the folders of the search path that are the same wherever it is searched from."""
    folders = [folder for folder in os.get_exec_path() if Path(folder).is_absolute()]
    program = shutil.which("git", path=os.pathsep.join(folders))
    if program is None:
        raise GitError("cannot be started: there is no such program on the search path")
    return program


def _output(process: subprocess.Popen[bytes], most: int) -> tuple[bytes, bool]:
    """Return what a process prints, cut a little past `most` bytes, and whether it had to be ended for its time."""
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
    """Bound the memory of a process, and what it writes into files: its complaints."""
    if sys.platform == "linux":
        import resource

        with contextlib.suppress(OSError):  # it has ended already
            resource.prlimit(process, resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
            resource.prlimit(process, resource.RLIMIT_FSIZE, (_MOST_COMPLAINTS, _MOST_COMPLAINTS))
