"""Which lines git says have changed since a revision."""

from __future__ import annotations

import codecs
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dynalint.errors import UsageError
from dynalint.findings import Finding

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class Changes:
    """Changed lines by the real path of a file; None for one that is new as a whole."""

    directory: Path
    files: Mapping[str, tuple[range, ...] | None]

    def touch(self, finding: Finding) -> bool:
        """Tell whether a finding stands on a changed line, or anywhere in a notebook that has changed."""
        path = os.path.realpath(self.directory / finding.path)
        if path not in self.files:
            return False
        ranges = self.files[path]
        if ranges is None or finding.cell is not None:
            return True
        return any(lines.start <= finding.end_line and finding.line < lines.stop for lines in ranges)


def changes_since(revision: str, directory: Path) -> Changes:
    """Return what has changed since the commit that `revision` and the current one have in common.

    What is not committed yet and files that git does not know count as changed.

    Raises:
        UsageError: git is missing, `directory` is in no repository, or there is no such revision.
    """
    top = Path(os.path.realpath(os.fsdecode(_git(directory, "rev-parse", "--show-toplevel")).rstrip("\r\n")))
    wanted = f"--since {revision}: no such revision"
    commit = _git(
        directory, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", fault=wanted
    )
    start = os.fsdecode(commit).strip()
    base = os.fsdecode(_git(directory, "merge-base", start, "HEAD", fault=f"--since {revision}: no common history"))
    diff = _git(
        top, "diff", "--unified=0", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames",
        "--src-prefix=a/", "--dst-prefix=b/", base.strip(), "--",
    )  # fmt: skip
    files: dict[str, tuple[range, ...] | None] = {
        str(top / name): tuple(ranges) for name, ranges in _parse(os.fsdecode(diff)).items()
    }
    untracked = _git(top, "ls-files", "-z", "--others", "--exclude-standard")
    files.update({str(top / os.fsdecode(name)): None for name in untracked.split(b"\0") if name})
    return Changes(directory, files)


def _parse(diff: str) -> dict[str, list[range]]:
    files: dict[str, list[range]] = {}
    ranges: list[range] = []
    added = 0  # lines of the hunk still to come, which may look like a header
    removed = 0
    for line in diff.split("\n"):
        if added and line.startswith("+"):
            added -= 1
        elif removed and line.startswith("-"):
            removed -= 1
        elif line.startswith("+++ "):
            ranges = files.setdefault(_unquoted(line[4:]).removeprefix("b/"), [])
        elif match := _HUNK.match(line):
            first, count = int(match[1]), int(match[2] or 1)
            old = re.match(r"@@ -\d+(?:,(\d+))?", line)
            added, removed = count, int((old and old[1]) or 1)
            if count:
                ranges.append(range(first, first + count))
    return files


def _unquoted(name: str) -> str:
    """Return a name as it is; git writes odd ones in quotes, and a tab after one with spaces."""
    name = name.rstrip("\t")
    if name.startswith('"') and name.endswith('"'):
        return os.fsdecode(codecs.escape_decode(os.fsencode(name[1:-1]))[0])
    return name


def _git(directory: Path, *arguments: str, fault: str = "") -> bytes:
    try:
        ran = subprocess.run(
            ["git", *arguments], cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError as error:
        raise UsageError(f"--since asks git, which cannot be started: {error.strerror or error}.") from error
    if ran.returncode:
        said = " ".join(ran.stderr.decode(errors="replace").split())
        raise UsageError(f"{fault or f'--since asks git, which says: {said}'}.")
    return ran.stdout
