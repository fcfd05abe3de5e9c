"""A finding with its location in the code that runs, and the targets that lead to it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from dynalint.confirm.options import ConfirmOptions, Target, resolved
from dynalint.confirm.results import Spot
from dynalint.confirm.sources import UserSources
from dynalint.findings import Finding


@dataclass(frozen=True)
class Located:
    """A finding with its resolved path, its range in bytecode positions, and its compiled root's file if known.

    `leads` are the compiled roots that lead to the finding, nearest first.
    """

    finding: Finding
    path: str
    spot: Spot
    root: str = ""
    leads: tuple[Target, ...] = ()

    def covers(self, file: str, line: int) -> bool:
        """Return whether a line is in the finding's range."""
        return file == self.path and self.finding.line <= line <= self.finding.end_line


def place(finding: Finding, options: ConfirmOptions, sources: UserSources, leads: Iterable[Target]) -> Located:
    """Return a finding with its location. `leads` are the compiled roots that lead to it, nearest first."""
    path = os.path.realpath(options.directory / finding.path)
    root = os.path.realpath(options.directory / finding.steps[0].path) if finding.steps else ""
    return Located(finding, path, sources.spot(path, finding), root, tuple(resolved(leads)))


def is_way_to(target: Target, placed: Located) -> bool:
    """Return whether the finding is in the target's own code, or the target reaches it through its call chain."""
    finding = placed.finding
    here = str(target.path) == placed.path
    if here and (finding.function == target.qualname or finding.function.startswith(f"{target.qualname}.")):
        return True
    roots = {target.qualname, f"{target.qualname}.forward", f"{target.qualname}.__call__"}
    if not finding.region or finding.region[0] not in roots or placed.root not in ("", str(target.path)):
        return False
    return here or len(finding.region) > 1
