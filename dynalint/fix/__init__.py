"""From rules' rewrites to files that are changed, or left alone with a reason.

    result = fix_findings(linted, lint, FixOptions(unsafe=False), verify)     # in memory
    print("".join(file.diff(name(file.source)) for file in result.files))     # a dry run
    result = write_result(result, name)                                       # --apply

`linted` pairs each finding (with its evidence, so that refuted ones are left alone) with its file and its rewrite;
`lint` does the same for the project with some texts replaced; `verify` is None where nothing may be run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dynalint.analysis.source import SourceFile
from dynalint.fix.edits import to_edits
from dynalint.fix.engine import FixOptions, fix_findings
from dynalint.fix.imports import EditError
from dynalint.fix.model import (
    ChangedFile,
    Decider,
    Fixed,
    FixResult,
    Linted,
    Linter,
    Proof,
    Proposal,
    Refused,
    Unit,
    Verifier,
)
from dynalint.fix.views import View, Views
from dynalint.fix.write import Write, write_groups

__all__ = [
    "ChangedFile",
    "Decider",
    "EditError",
    "FixOptions",
    "FixResult",
    "Fixed",
    "Linted",
    "Linter",
    "Proof",
    "Proposal",
    "Refused",
    "Unit",
    "Verifier",
    "View",
    "Views",
    "fix_findings",
    "to_edits",
    "write_result",
]


def write_result(result: FixResult, name: Callable[[SourceFile], str]) -> FixResult:
    """Write the changed files and return what really came of it; `name` words paths for messages.

    Files that one fix changes are written together or not at all. What could not be written is told in `failures`, its
    findings are back among the remaining ones, and its files are no longer among `files`.
    """
    writes: dict[Path, Write] = {}
    for file in result.files:
        before = file.source.data if file.source.data is not None else file.source.encode(file.source.text)
        writes[file.source.path] = Write(file.source.path, name(file.source), before, file.data)
    written, failures = write_groups(result.groups, writes)
    missed = [file for file in result.files if file.source.path not in written]
    missed_names = {name(file.source) for file in missed}
    missed_places = {finding.sort_key for file in missed for finding in file.findings}
    lost = {
        fixed for fixed in result.fixed if fixed.finding.path in missed_names or fixed.finding.sort_key in missed_places
    }
    remaining = [*result.remaining, *(fixed.finding for fixed in lost)]
    return replace(
        result,
        files=tuple(file for file in result.files if file.source.path in written),
        groups=tuple(group for group in result.groups if written.issuperset(group)),
        fixed=tuple(fixed for fixed in result.fixed if fixed not in lost),
        remaining=tuple(sorted(remaining, key=lambda finding: finding.sort_key)),
        failures=tuple(failures),
    )
