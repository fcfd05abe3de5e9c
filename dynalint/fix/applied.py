"""Findings as they are reported after trying their fixes: the applied change, and whether a run has verified it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dynalint.analysis.source import SourceFile
from dynalint.findings import Finding, Fix
from dynalint.fix.chains import CAUTION
from dynalint.fix.edits import edits_of
from dynalint.fix.model import Proof, Unit


def as_applied(finding: Finding, unit: Unit, proof: Proof | None, first: SourceFile | None) -> Finding:
    """Return a finding with the fix actually applied, such as a longer form, or one together with follow-up rewrites.

    `first` is the file as first read, if the unit changes no other file. Edits refer to positions in that text, so they
    stay as offered if other fixes had changed the file before.
    """
    fix = finding.fix
    if fix is None:
        return finding
    if fix.declined is not None:
        # There was no fix until others had changed the surrounding code.
        fix = Fix(unit.title, unit.safety, unit.conditions)
    if proof is not None and proof.outcome != "unverifiable":
        fix = replace(fix, verified=proof.outcome == "proven")
    if first is not None and unit.sources[first.path].text == first.text:
        edits = tuple(edits_of(unit.plan[first.path], first))
        if edits != fix.edits:
            fix = replace(fix, edits=edits, safety=unit.safety, conditions=unit.conditions)
    return replace(finding, fix=replace(fix, changes=() if proof is None else proof.passed, applied=True))


def as_repaired(finding: Finding, units: Sequence[Unit], proofs: Mapping[Unit, Proof]) -> Finding:
    """Return a finding that disappeared because one or all of `units` changed its code, with the applied change."""
    first, *others = [unit for unit in units if any(one.finding.path == finding.path for one in unit.linted)] or units
    near = [first, *others]
    outcomes = {proofs[unit].outcome for unit in near if unit in proofs}
    return replace(
        finding,
        fix=Fix(
            "Fix it together with others" if others else first.title,
            max((unit.safety for unit in near), key=CAUTION.index),
            tuple(dict.fromkeys(condition for unit in near for condition in unit.conditions)),
            verified=True if outcomes == {"proven"} else None,
            applied=True,
        ),
    )
