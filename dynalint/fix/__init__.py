"""Fixing findings: apply the rules' rewrites, or leave a finding alone and say why.

    result = fix_findings(linted, lint, FixOptions(unsafe=False), verify)     # in memory
    print("".join(file.diff(name(file.source)) for file in result.files))     # a dry run

    writer = Writer(name)                                                     # --apply
    result = writer.finish(fix_findings(linted, lint, FixOptions(keep=writer.keep), verify))

`linted` pairs each finding with its file and its rewrite. The findings carry their evidence, so that refuted findings
are left alone. `lint` lints the project again with the text of some files replaced. `verify` is None if no code may be
run.
"""

from __future__ import annotations

from dynalint.fix.edits import to_edits
from dynalint.fix.engine import fix_findings, remembering
from dynalint.fix.imports import EditError
from dynalint.fix.model import (
    ChangedFile,
    Decider,
    Fixed,
    FixOptions,
    FixResult,
    Keeper,
    Linted,
    Linter,
    Proposal,
    Refused,
    Unit,
    Verification,
    Verifier,
)
from dynalint.fix.views import View, Views
from dynalint.fix.writer import Writer

__all__ = [
    "ChangedFile",
    "Decider",
    "EditError",
    "FixOptions",
    "FixResult",
    "Fixed",
    "Keeper",
    "Linted",
    "Linter",
    "Proposal",
    "Refused",
    "Unit",
    "Verification",
    "Verifier",
    "View",
    "Views",
    "Writer",
    "fix_findings",
    "remembering",
    "to_edits",
]
