"""Find the lines that changed since a revision. git provides only the old contents, and dynalint compares them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from dynalint.diffs import differences
from dynalint.errors import UsageError
from dynalint.findings import Finding
from dynalint.projects.git import GitError, GitExitError, Repository
from dynalint.projects.reading import MOST_NOTEBOOK_BYTES, read_bounded

_AT_ONCE = 200  # names per git command, because the length of a command line is limited
_MOST_RENAMES = 1000  # the number of files on each side that git compares to detect renames, which is git's default

Ranges = tuple[range, ...]


@dataclass(frozen=True)
class Changes:
    """The differences from the tree of the commit `base`, computed for each file on request.

    A file that is not in the tree is compared with the file that it was renamed from, according to the index. If there
    is none, all of its lines are new. The same is true for files that cannot be compared, either because they are too
    large or because git does not have the old contents. A file in another repository, such as a submodule, counts as
    unchanged.
    """

    directory: Path
    repository: Repository
    base: str
    _ranges: dict[Path, Ranges | None] = field(default_factory=dict)

    def among(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        """Return the findings on changed lines, and all findings in changed notebooks."""
        paths = {finding.path: Path(os.path.realpath(self.directory / finding.path)) for finding in findings}
        self._compare({path for path in paths.values() if path not in self._ranges})
        return tuple(finding for finding in findings if _touches(finding, self._ranges[paths[finding.path]]))

    def touch(self, finding: Finding) -> bool:
        """Return whether a finding is on a changed line. To test many findings, `among` is faster."""
        return bool(self.among([finding]))

    def _compare(self, paths: Collection[Path]) -> None:
        own = {path: path.relative_to(self.repository.top).as_posix() for path in paths if self._is_own(path)}
        self._ranges.update(dict.fromkeys(paths, ()))
        held = self._held(own.values())
        for path, name in own.items():
            oid = held.get(name) or self._renamed.get(name)
            self._ranges[path] = None if oid is None else self._changed(path, oid)

    def _is_own(self, path: Path) -> bool:
        nearest = next((folder for folder in path.parents if (folder / ".git").exists()), None)
        return path.is_relative_to(self.repository.top) and (nearest is None or nearest == self.repository.top)

    def _held(self, names: Iterable[str]) -> dict[str, str]:
        """Return the object ids of the `names` that are files in the tree."""
        found = {}
        asked = sorted(names)
        for start in range(0, len(asked), _AT_ONCE):
            some = asked[start : start + _AT_ONCE]
            try:
                output = self.repository.ask(
                    "--literal-pathspecs", "ls-tree", "-z", "--full-tree", self.base, "--", *some
                )
            except GitError as fault:
                raise UsageError(f"--since uses git, which {fault}.") from fault
            for line in output.split(b"\0")[:-1]:
                head, _, name = line.partition(b"\t")
                _, kind, oid = head.split()
                if kind == b"blob":
                    found[os.fsdecode(name)] = oid.decode()
        return found

    @cached_property
    def _renamed(self) -> dict[str, str]:
        """The object ids that renamed files had under their old names, by new name."""
        options = ("--cached", "-z", "--find-renames", f"-l{_MOST_RENAMES}", "--diff-filter=R")
        try:
            output = self.repository.ask("diff-index", *options, self.base, "--")
        except GitError:  # To detect renames, git needs the files' contents, which a partial clone may not have.
            return {}
        fields = output.split(b"\0")[:-1]
        heads, names = fields[::3], fields[2::3]
        return {os.fsdecode(name): head.split()[2].decode() for head, name in zip(heads, names, strict=True)}

    def _changed(self, path: Path, oid: str) -> Ranges | None:
        """Return the lines of a file that are not in the object, or None if they cannot be determined."""
        try:
            after = read_bounded(path, MOST_NOTEBOOK_BYTES)
            if _is_object(after, oid):
                return ()
            before = self.repository.ask("cat-file", "blob", oid, most=MOST_NOTEBOOK_BYTES)
        except (OSError, GitError):
            return None
        parts = differences(_lines(before), _lines(after))
        return tuple(range(one.start + 1, one.stop + 1) for one in parts if one.start < one.stop)


def changes_since(revision: str, directory: Path) -> Changes:
    """Return the changes since the merge base of `revision` and the current commit.

    Uncommitted changes and untracked files count as changes.

    Raises:
        UsageError: If git is missing, `directory` is not in a repository, or the revision does not exist.
    """
    try:
        repository = Repository.around(directory)
    except GitError as fault:
        raise UsageError(f"--since uses git, which {fault}.") from fault
    wanted = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    start = _commit(repository, wanted, f"--since {revision}: no such revision.")
    unrelated = f"--since {revision}: no common history with the current commit; in a shallow clone, fetch it first."
    return Changes(directory, repository, _commit(repository, ("merge-base", start, "HEAD"), unrelated))


def _commit(repository: Repository, arguments: Sequence[str], fault: str) -> str:
    try:
        return repository.ask(*arguments).decode().strip()
    except GitExitError as error:
        raise UsageError(fault) from error
    except GitError as error:
        raise UsageError(f"--since uses git, which {error}.") from error


def _touches(finding: Finding, ranges: Ranges | None) -> bool:
    if ranges is None or (ranges and finding.cell is not None):
        return True
    return any(lines.start <= finding.end_line and finding.line < lines.stop for lines in ranges)


def _is_object(data: bytes, oid: str) -> bool:
    digest = hashlib.sha1(usedforsecurity=False) if len(oid) == 40 else hashlib.sha256()
    digest.update(b"blob %d\0" % len(data))
    digest.update(data)
    return digest.hexdigest() == oid


def _lines(data: bytes) -> list[bytes]:
    """Split into lines the way Python counts them. Line endings are ignored because git may convert them."""
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
