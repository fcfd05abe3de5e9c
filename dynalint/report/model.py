"""What every format is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dynalint.findings import Finding


@dataclass(frozen=True, slots=True)
class Report:
    """The findings to write, in order, and what a format may need beside them.

    `lines` are the lines of the files with findings, by path. `refuted` counts findings that Dynamo refuted and that
    are not among `findings`. `unsafe_fixes` tells whether unsafe fixes count as applicable, `fixable` which codes may
    be fixed (None: all). `folder` is the working directory relative to the top of the repository.
    """

    findings: Sequence[Finding]
    lines: Mapping[str, Sequence[str]] = field(default_factory=dict)
    refuted: int = 0
    unsafe_fixes: bool = False
    quiet: bool = False
    folder: str = ""

    def applies(self, finding: Finding) -> bool:
        """Tell whether `dynalint fix --apply` would try the fix of a finding with the options as they are."""
        if finding.fix is None or not finding.fixable or finding.fix.verified is False:
            return False
        return finding.fix.safety in (
            ("safe", "conditional", "unsafe") if self.unsafe_fixes else ("safe", "conditional")
        )
