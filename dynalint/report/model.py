"""The input to every format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dynalint.findings import Finding

if TYPE_CHECKING:
    from dynalint.adoption.baseline import BaselineComparison
    from dynalint.rulebook.catalogue import CodeEntry


@dataclass(frozen=True, slots=True)
class Report:
    """The findings to write, in order, and everything else that a format may need.

    `lines` maps a finding's `place` to the lines of the file or cell. `refuted` is the number of findings that Dynamo
    refuted and that are not in `findings`. `folded` is the number of findings in code that is rarely compiled.
    `compared` is the comparison with the baseline, or None if there is no baseline. Findings in the baseline are not in
    `findings`. `with_fixes` is true if the findings include their fixes, and `unsafe_fixes` is true if unsafe fixes can
    be applied. `folder` is the working directory relative to the repository's root. `entries` documents the codes.
    `failures` are sentences about errors in dynalint. `ran_by` describes the interpreter that ran the code and its
    torch version, or is empty if no code was run.
    """

    findings: Sequence[Finding]
    lines: Mapping[str, Sequence[str]] = field(default_factory=dict)
    refuted: int = 0
    folded: int = 0
    with_fixes: bool = False
    unsafe_fixes: bool = False
    quiet: bool = False
    folder: str = ""
    entries: Mapping[str, CodeEntry] = field(default_factory=dict)
    failures: Sequence[str] = ()
    ran_by: str = ""
    compared: BaselineComparison | None = None

    def applies(self, finding: Finding) -> bool:
        """Return whether `dynalint fix --apply` would try to fix the finding with the current options."""
        if finding.fix is None or not finding.fixable or finding.fix.verified is False:
            return False
        return finding.fix.safety in (
            ("safe", "conditional", "unsafe") if self.unsafe_fixes else ("safe", "conditional")
        )
