"""Identify findings across runs by their contents, not by line, so that edits elsewhere do not matter.

Baselines, SARIF and GitLab all use the same fingerprint.
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
    """What identifies a finding: its code, file, function and text, and its index among identical findings.

    `path` is relative to the top of the repository. `text` has no white space, so layout does not matter.
    """

    path: str
    code: str
    function: str
    text: str
    occurrence: int = 0

    @property
    def fingerprint(self) -> str:
        """A hash of the identity, as 32 hexadecimal digits."""
        parts = [self.path, self.code, self.function, self.text, self.occurrence]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def repository_top(directory: Path) -> Path:
    """Return the repository root for a directory: the CI checkout, git's root, or the directory itself."""
    named = (os.environ.get(name) for name in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"))
    git = next((str(one) for one in (directory, *directory.parents) if (one / ".git").exists()), None)
    return next((Path(top) for top in (*named, git) if top and directory.is_relative_to(top)), directory)


def repository_path(path: str, folder: str) -> str:
    """Convert a finding's path to a path relative to the repository root.

    The run was started in the root's `folder`.
    """
    return posixpath.normpath(posixpath.join(folder, path))


def identify(findings: Sequence[Finding], lines: Mapping[str, Sequence[str]], folder: str = "") -> list[Identity]:
    """Return the identities of all findings from a run, in order.

    `lines` maps each finding's `place` to the lines of that file or cell. See `repository_path` for `folder`.
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
    """Return the findings from a run with their fingerprints. See `identify` for the arguments."""
    identities = identify(findings, lines, folder)
    return tuple(
        replace(finding, fingerprint=identity.fingerprint)
        for finding, identity in zip(findings, identities, strict=True)
    )


def _text(finding: Finding, lines: Sequence[str]) -> str:
    """Return the text that a finding marks, without white space."""
    marked = list(lines[finding.line - 1 : finding.end_line])
    if len(marked) == finding.end_line - finding.line + 1:
        marked[-1] = marked[-1][: finding.end_column - 1]
        marked[0] = marked[0][finding.column - 1 :]
    return "".join("".join(marked).split())
