"""A finding with its location in the code that runs."""

from __future__ import annotations

from dataclasses import dataclass

from dynalint.confirm.options import Target
from dynalint.confirm.results import Spot
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
