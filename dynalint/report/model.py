"""What every format is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dynalint.findings import Finding

if TYPE_CHECKING:
    from dynalint.catalogue import Entry


@dataclass(frozen=True, slots=True)
class Report:
    """The findings to write, in order, and what a format may need beside them.

    `lines` are the lines of the files with findings, by the place of the finding. `refuted` counts findings that Dynamo
    refuted and that are not among `findings`, `known` those that a baseline holds, `folded` those in code that is
    rarely compiled. `with_fixes` tells that the findings have their fixes, `unsafe_fixes` whether unsafe ones count as
    applicable. `folder` is the working directory relative to the top of the repository. `entries` are what is known of
    codes, `failures` sentences about what dynalint could not cope with. `ran_by` names the interpreter that ran the
    code and its torch; it is empty where nothing was run.
    """

    findings: Sequence[Finding]
    lines: Mapping[str, Sequence[str]] = field(default_factory=dict)
    refuted: int = 0
    known: int = 0
    folded: int = 0
    with_fixes: bool = False
    unsafe_fixes: bool = False
    quiet: bool = False
    folder: str = ""
    entries: Mapping[str, Entry] = field(default_factory=dict)
    failures: Sequence[str] = ()
    ran_by: str = ""

    def applies(self, finding: Finding) -> bool:
        """Tell whether `dynalint fix --apply` would try the fix of a finding with the options as they are."""
        if finding.fix is None or not finding.fixable or finding.fix.verified is False:
            return False
        return finding.fix.safety in (
            ("safe", "conditional", "unsafe") if self.unsafe_fixes else ("safe", "conditional")
        )
