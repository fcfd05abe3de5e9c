"""Which lines have changed since a revision: git says what was there, the comparison is made here (see `git.py`)."""

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
from dynalint.git import GitError, GitExitError, Repository
from dynalint.reading import MOST_NOTEBOOK_BYTES, read_bounded

_AT_ONCE = 200  # names that are asked for together: a command line holds only so much
_MOST_RENAMES = 1000  # files on each side between which git looks for renames, as it does unless told otherwise

Ranges = tuple[range, ...]


@dataclass(frozen=True)
class Changes:
    """What is different from the tree of the commit `base`, worked out for the files that are asked about.

    A file that the tree lacks is compared with the one that it is renamed from, as the index has it; without one it is
    new as a whole. So is what cannot be compared, because it is too large or git lacks what was there. A file that
    belongs to another repository, a submodule's for one, has not changed: its history is told there.
    """

    directory: Path
    repository: Repository
    base: str
    _ranges: dict[Path, Ranges | None] = field(default_factory=dict)

    def among(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        """Return the findings that stand on a changed line, or anywhere in a notebook that has changed."""
        paths = {finding.path: Path(os.path.realpath(self.directory / finding.path)) for finding in findings}
        self._compare({path for path in paths.values() if path not in self._ranges})
        return tuple(finding for finding in findings if _touches(finding, self._ranges[paths[finding.path]]))

    def touch(self, finding: Finding) -> bool:
        """Tell whether a finding is among them; many are better asked about together."""
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
        """Return which object each of the names is in the tree, if it is a file there."""
        found = {}
        asked = sorted(names)
        for start in range(0, len(asked), _AT_ONCE):
            some = asked[start : start + _AT_ONCE]
            try:
                said = self.repository.ask(
                    "--literal-pathspecs", "ls-tree", "-z", "--full-tree", self.base, "--", *some
                )
            except GitError as fault:
                raise UsageError(f"--since asks git, which {fault}.") from fault
            for line in said.split(b"\0")[:-1]:
                head, _, name = line.partition(b"\t")
                _, kind, oid = head.split()
                if kind == b"blob":
                    found[os.fsdecode(name)] = oid.decode()
        return found

    @cached_property
    def _renamed(self) -> dict[str, str]:
        """The object that a file was before it was renamed, by its new name."""
        options = ("--cached", "-z", "--find-renames", f"-l{_MOST_RENAMES}", "--diff-filter=R")
        try:
            said = self.repository.ask("diff-index", *options, self.base, "--")
        except GitError:  # it needs what is in files, which a partial clone may lack
            return {}
        fields = said.split(b"\0")[:-1]
        heads, names = fields[::3], fields[2::3]
        return {os.fsdecode(name): head.split()[2].decode() for head, name in zip(heads, names, strict=True)}

    def _changed(self, path: Path, oid: str) -> Ranges | None:
        """Return the lines of a file that are not in the object; None where that cannot be told."""
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
    """Return what has changed since the commit that `revision` and the current one have in common.

    What is not committed yet and files that git does not know count as changed.

    Raises:
        UsageError: git is missing, `directory` is in no repository, or there is no such revision.
    """
    try:
        repository = Repository.around(directory)
    except GitError as fault:
        raise UsageError(f"--since asks git, which {fault}.") from fault
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
        raise UsageError(f"--since asks git, which {error}.") from error


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
    """Return lines as Python counts them; how they end makes no difference, since git may write other endings."""
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
