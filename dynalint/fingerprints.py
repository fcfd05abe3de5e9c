"""What a finding is known by from one run to the next: its content and not its line, so that edits elsewhere keep it.

A baseline matches findings by it, and SARIF and GitLab carry it, so that all three mean the same finding.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dynalint.findings import Finding


@dataclass(frozen=True, slots=True)
class Identity:
    """A code in a function of a file, the text it is about, and the how manyth of those that are alike it is.

    `path` is relative to the top of the repository. `text` has no white space: how code is laid out does not count.
    """

    path: str
    code: str
    function: str
    text: str
    occurrence: int = 0

    @property
    def fingerprint(self) -> str:
        """A hash of all of it, 32 hexadecimal digits."""
        parts = [self.path, self.code, self.function, self.text, self.occurrence]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def repository_top(directory: Path) -> Path:
    """Return the top of the repository that holds a directory: what a CI system checked out, git's, or itself."""
    named = (os.environ.get(name) for name in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"))
    git = next((str(one) for one in (directory, *directory.parents) if (one / ".git").exists()), None)
    return next((Path(top) for top in (*named, git) if top and directory.is_relative_to(top)), directory)


def repository_path(path: str, folder: str) -> str:
    """Return the path of a finding relative to the top of the repository, in which the run was started in `folder`."""
    return posixpath.normpath(posixpath.join(folder, path))


def identify(findings: Sequence[Finding], lines: Mapping[str, Sequence[str]], folder: str = "") -> list[Identity]:
    """Return the identity of each of the findings, which are all those of a run, in order.

    `lines` are the lines of files by the place (path, cell) that findings have; `folder` as in `repository_path`.
    """
    seen: Counter[tuple[str, str, str, str]] = Counter()
    identities = []
    for finding in findings:
        path = repository_path(finding.path, folder)
        parts = (path, finding.code, finding.function, _text(finding, lines.get(finding.place, ())))
        identities.append(Identity(*parts, seen[parts]))
        seen[parts] += 1
    return identities


def fingerprinted(
    findings: Sequence[Finding], lines: Mapping[str, Sequence[str]], folder: str = ""
) -> tuple[Finding, ...]:
    """Return the findings of a run, each with its fingerprint; the arguments are those of `identify`."""
    identities = identify(findings, lines, folder)
    return tuple(
        replace(finding, fingerprint=identity.fingerprint)
        for finding, identity in zip(findings, identities, strict=True)
    )


def _text(finding: Finding, lines: Sequence[str]) -> str:
    """Return what a finding marks, without white space."""
    marked = list(lines[finding.line - 1 : finding.end_line])
    if len(marked) == finding.end_line - finding.line + 1:
        marked[-1] = marked[-1][: finding.end_column - 1]
        marked[0] = marked[0][finding.column - 1 :]
    return "".join("".join(marked).split())
