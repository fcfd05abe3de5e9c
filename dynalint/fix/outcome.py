"""The outcome of trying fixes, and when it counts against them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dynalint.analysis.source import SourceFile
from dynalint.fix.chains import CAUTION
from dynalint.fix.model import Linted, Unit, Verification
from dynalint.fix.recheck import Item, offset_of
from dynalint.rules import Rewrite


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    """The outcome of applying units to the state at the start of a round.

    `blamed` are the units at fault. If it is unclear which unit is at fault, `trouble` describes the problem and
    `suspects` lists the candidates.
    """

    texts: Mapping[Path, str] = field(default_factory=dict)
    items: tuple[Item, ...] = ()
    blamed: Mapping[Unit, str] = field(default_factory=dict)
    trouble: str | None = None
    suspects: tuple[Unit, ...] = ()
    verifications: Mapping[Unit, Verification] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        """Whether nothing counts against any of the units."""
        return not self.blamed and self.trouble is None


def never(linted: Linted) -> str | None:
    """Return why a finding must not be fixed even if its rule offers a fix, or None if it may be fixed."""
    return "Dynamo traces this code without a break" if linted.finding.evidence.status == "refuted" else None


def united(units: Sequence[Unit]) -> Unit:
    """Combine units that make the same changes. The result has all their conditions and the most cautious safety."""
    safety = max((unit.safety for unit in units), key=CAUTION.index)
    linted = tuple(sorted((one for unit in units for one in unit.linted), key=offset_of))
    conditions = tuple(dict.fromkeys(condition for unit in units for condition in unit.conditions))
    first = units[0]
    ranks = any(unit.ranks for unit in units)
    return Unit(linted, first.plan, first.title, safety, conditions, first.sources, ranks)


def is_refuted(unit: Unit, verification: Verification) -> bool:
    """Return whether a result counts against applying a unit.

    An unsafe fix can change behaviour, and the user asked for it. A difference is therefore reported but does not
    count, unless the new code fails where the old code ran.
    """
    return verification.outcome == "refuted" and (unit.safety != "unsafe" or verification.raises)


def refusal_of(unit: Unit, verification: Verification) -> str | None:
    """Return why a unit is not applied after a run, or None if it is."""
    if is_refuted(unit, verification):
        return f"running it showed a difference: {verification.detail}"
    if verification.outcome == "unverifiable" and unit.safety == "conditional":
        return f"running it could not show that it is correct: {verification.detail}"
    if verification.outcome == "unverifiable" and unit.safety == "unsafe":
        return f"it is unsafe and could not be run: {verification.detail} (`--no-verify` applies it anyway)"
    return None


def not_allowed(fix: Rewrite | Unit, *, unsafe: bool, runs: bool) -> tuple[str, str | None] | None:
    """Return why a fix must not be tried and which option would allow it, or None if it may be tried.

    `unsafe` says whether the user accepts unsafe fixes, and `runs` whether the code can be run.
    """
    terms = "; ".join(fix.conditions)
    if fix.safety == "suggestion":
        return "it is only a suggestion; make the change by hand", None
    if fix.safety == "unsafe" and not unsafe:
        return f"it is unsafe ({terms})" if terms else "it is unsafe", "--unsafe-fixes"
    if fix.safety == "conditional" and not runs:
        return "it can only be verified by running the code, and nothing was run", None
    return None


def parse_fault(source: SourceFile, text: str) -> str | None:
    """Compile a file as it would be written, and return Python's error message, if any."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source.encode(text), str(source.path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as fault:
        return f"{fault.msg} (line {fault.lineno})" if isinstance(fault, SyntaxError) else str(fault)
    except (RecursionError, MemoryError):
        return "it is nested too deeply for Python"
    return None


def longer_forms(unit: Unit) -> int:
    """Return how many longer forms of a unit may be left to try. A rewrite that follows in it may have one, too."""
    return max((_longer(linted.rewrite) for linted in unit.linted if linted.rewrite is not None), default=0)


def _longer(rewrite: Rewrite) -> int:
    return int(bool(rewrite.leaves)) if rewrite.otherwise is None else 1 + _longer(rewrite.otherwise)


def together(units: Sequence[Unit], changed: set[Path]) -> tuple[tuple[Path, ...], ...]:
    """Return the changed files, grouped by the fixes that change them together."""
    groups: list[set[Path]] = []
    for unit in units:
        touching = [group for group in groups if group & unit.plan.keys()]
        groups = [group for group in groups if group not in touching]
        groups.append(set(unit.plan).union(*touching))
    return tuple(sorted(tuple(sorted(group & changed)) for group in groups if group & changed))
