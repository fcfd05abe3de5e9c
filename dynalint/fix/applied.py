"""Findings as reported after their fixes have been tried: which change was made, and whether it was verified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dynalint.analysis.source import SourceFile
from dynalint.findings import Finding, Fix
from dynalint.fix.chains import CAUTION
from dynalint.fix.edits import edits_of
from dynalint.fix.model import Unit, Verification


def as_applied(finding: Finding, unit: Unit, verification: Verification | None, first: SourceFile | None) -> Finding:
    """Return a finding with the fix that was actually applied.

    That fix can differ from the one offered: it can be a longer form, or it can include follow-up rewrites. If the unit
    changes no other file, `first` is the file as it was first read. Edits refer to positions in that text, so if other
    fixes changed the file first, the edits stay as they were offered.
    """
    fix = finding.fix
    if fix is None:
        return finding
    if fix.declined is not None:
        # There was no fix until other fixes had changed the surrounding code.
        fix = Fix(unit.title, unit.safety, unit.conditions)
    if verification is not None and verification.outcome != "unverifiable":
        fix = replace(fix, verified=verification.outcome == "proven")
    if first is not None and unit.sources[first.path].text == first.text:
        edits = tuple(edits_of(unit.plan[first.path], first))
        if edits != fix.edits:
            fix = replace(fix, edits=edits, safety=unit.safety, conditions=unit.conditions)
    return replace(finding, fix=replace(fix, changes=() if verification is None else verification.passed, applied=True))


def as_repaired(finding: Finding, units: Sequence[Unit], verifications: Mapping[Unit, Verification]) -> Finding:
    """Return a finding that disappeared because `units` changed its code, together with the change that was applied."""
    first, *others = [unit for unit in units if any(one.finding.path == finding.path for one in unit.linted)] or units
    near = [first, *others]
    outcomes = {verifications[unit].outcome for unit in near if unit in verifications}
    return replace(
        finding,
        fix=Fix(
            "Fix it together with other findings" if others else first.title,
            max((unit.safety for unit in near), key=CAUTION.index),
            tuple(dict.fromkeys(condition for unit in near for condition in unit.conditions)),
            verified=True if outcomes == {"proven"} else None,
            applied=True,
        ),
    )
