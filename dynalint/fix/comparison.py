"""Compare two states of the project by running them, and determine the code that must run for each part of the fix."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dynalint.analysis.source import SourceFile, parse_text
from dynalint.confirm.options import Target
from dynalint.fix.edits import Change, Moves, merged
from dynalint.fix.model import Unit, Verification
from dynalint.fix.sides import Insertion, Key, Side, inserted, marks_beside, marks_kept, sides_of

# Marks in unchanged tests are numbered from here.
_BESIDE = 1_000_000
_MOST_PASSED = 3
# Must match the wording in `differences.let_pass`.
_ZEROS = " has a zero gradient instead of None"


@dataclass(eq=False)
class TriedUnit:
    """A unit that is being tried: the code that has to run, the code that has run so far, and the outcome.

    `old_lines` and `new_lines` are the changed lines before and after the fix, keyed by resolved path.
    """

    unit: Unit
    sides: dict[Key, Side] = field(default_factory=dict)
    old_lines: dict[str, set[int]] = field(default_factory=dict)
    new_lines: dict[str, set[int]] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)
    seen: set[Key] = field(default_factory=set)
    inputs: int = 0
    obstacles: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    passed: set[str] = field(default_factory=set)
    verification: Verification | None = None

    @property
    def complete(self) -> bool:
        """Whether nothing is left to try."""
        return self.verification is not None or (self.inputs > 0 and self.seen >= self.sides.keys())

    def fresh(self) -> TriedUnit:
        """Return a copy of the case without any results."""
        return TriedUnit(self.unit, self.sides, self.old_lines, self.new_lines)

    def add(self, run: TriedUnit) -> None:
        """Add the results of another run of the same unit, which can come from another comparison of the same text.

        Branches are numbered differently in each comparison, but always in the same order.
        """
        keys = dict(zip(run.sides, self.sides, strict=True))
        self.seen |= {keys[key] for key in run.seen}
        self.inputs += run.inputs
        self.obstacles += run.obstacles
        self.notes += run.notes
        self.passed |= run.passed
        if run.verification is not None:
            self._settle(run.verification.outcome, run.verification.detail, raises=run.verification.raises)

    def refute(self, detail: str, *, raises: bool = False) -> None:
        """Settle the case because a difference was found."""
        self._settle("refuted", detail, raises=raises)

    def leave_open(self, detail: str) -> None:
        """Settle the case because a root that has to be run could not be run to completion."""
        self._settle("unverifiable", detail)

    def _settle(
        self, outcome: Literal["proven", "refuted", "unverifiable"], detail: str, *, raises: bool = False
    ) -> None:
        self.verification = Verification(outcome, detail, self.inputs, len(self.sides), len(self.seen), raises)

    def outcome(self) -> Verification:
        """Return the result. Call this after all targets have been tried."""
        if self.verification is not None:
            return self.verification
        counts = (self.inputs, len(self.sides), len(self.seen))
        if self.complete:
            ran = f"{counts[2]} of {counts[1]} branches and statements ran" if self.sides else "all of it ran"
            passed = changes_of(self.passed)
            but = [f"but {'; '.join(passed)}"] if passed else []
            detail = "; ".join([f"equal on {self.inputs} inputs, {ran}", *self.notes, *but])
            return Verification("proven", detail, *counts, passed=passed)
        if self.inputs:
            missing = next(side for key, side in sorted(self.sides.items(), key=str) if key not in self.seen)
            detail = f"{missing.words} on line {missing.line} did not run on any of {self.inputs} inputs"
            return Verification("unverifiable", detail, *counts)
        return Verification(
            "unverifiable", self.obstacles[0] if self.obstacles else "no compiled root reaches it", *counts
        )


def changes_of(passed: Iterable[str]) -> tuple[str, ...]:
    """Describe the differences between two versions as clauses, combining the parameters whose gradients are zeros."""
    found = sorted(passed)
    zeros = [name.removesuffix(_ZEROS) for name in found if name.endswith(_ZEROS)]
    others = tuple(clause for clause in found if not clause.endswith(_ZEROS))
    if not zeros:
        return others
    more = f" and {len(zeros) - _MOST_PASSED} more" if len(zeros) > _MOST_PASSED else ""
    names = f"{', '.join(zeros[:_MOST_PASSED])}{more}"
    said = f"the gradient of {names} is zero instead of None (momentum or weight decay then moves the parameter)"
    return said, *others


class Comparison:
    """Two states of the project and the units that turn one into the other.

    Each unit has the code that must run to verify it. Paths are resolved.
    """

    def __init__(self, before: Mapping[Path, str], after: Mapping[Path, str], units: Sequence[Unit]) -> None:
        self._changes = merged(unit.plan for unit in units)
        self._old = {path: parse_text(path, before.get(path, _text_of(path, units))) for path in self._changes}
        self._new = {path: parse_text(path, after[path]) for path in self._changes}
        self._insertions: dict[TriedUnit, dict[Path, list[Insertion]]] = {}
        self.before = {os.path.realpath(path): text for path, text in before.items()}
        self.before.update({os.path.realpath(path): file.text for path, file in self._old.items()})
        self.after = {os.path.realpath(path): text for path, text in after.items()}
        self.cases: list[TriedUnit] = []
        mark = 0
        for unit in units:
            case = TriedUnit(unit)
            self._insertions[case] = {}
            for path, own in unit.plan.items():
                sides, insertions = sides_of(self._old[path], self._new[path], self._changes[path], own, mark)
                mark += len({side.key[0] for side in sides})
                case.sides.update({side.key: side for side in sides})
                self._insertions[case][path] = insertions
                case.old_lines[os.path.realpath(path)] = _old_lines(self._old[path], own)
                case.new_lines[os.path.realpath(path)] = _new_lines(self._new[path], self._changes[path], own)
            self.cases.append(case)
        self._beside: dict[Path, list[Insertion]] = {}
        self._kept: dict[Path, list[Insertion]] = {}
        self._words: dict[int, str] = {}
        for number, (path, own) in enumerate(self._changes.items()):
            first = _BESIDE * (number + 1)
            known = [one for places in self._insertions.values() for one in places.get(path, ())]
            self._beside[path] = marks_beside(self._old[path], own, first, known)
            words, self._kept[path] = marks_kept(self._old[path], own, first, known)
            self._words.update(words)

    @property
    def marked(self) -> dict[str, str]:
        """The texts before the fix, with marks inserted."""
        texts = dict(self.before)
        for path, file in self._old.items():
            insertions = [one for places in self._insertions.values() for one in places.get(path, ())]
            insertions += self._beside[path]
            texts[os.path.realpath(path)] = inserted(file.text, insertions)
        return texts

    def turned(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Return the texts after the fix with marks in the unchanged tests, and a description of each mark."""
        rewritten = dict(self.after)
        for path, file in self._new.items():
            rewritten[os.path.realpath(path)] = inserted(file.text, self._kept[path])
        return {"rewritten": {**given, **rewritten}, "words": sorted(self._words.items())}

    def same_code(self, unit: Unit) -> bool:
        """Return whether a unit leaves the code in its files unchanged, apart from comments and layout."""
        for path in unit.plan:
            old, new = self._old[path].tree, self._new[path].tree
            if old is None or new is None or ast.dump(old) != ast.dump(new):
                return False
        return True


def _text_of(path: Path, units: Sequence[Unit]) -> str:
    """Return the text that the units were made for. No earlier round has changed this file."""
    return next(unit.sources[path].text for unit in units if path in unit.plan)


def _old_lines(file: SourceFile, own: Sequence[Change]) -> set[int]:
    return {line for change in own for line in _lines(file, change.start, change.end)}


def _new_lines(file: SourceFile, changes: Sequence[Change], own: Sequence[Change]) -> set[int]:
    placed = [span for _, span in _placed(changes, own) if not _only_takes_out(file, *span)]
    return {line for start, end in placed for line in _lines(file, start, end)}


def _only_takes_out(file: SourceFile, start: int, end: int) -> bool:
    """Return whether a change only deletes lines, so that the text now at its position used to be further down."""
    number, _ = file.position(start)
    return start == end and not file.text[file.line_starts[number - 1] : start].strip()


def _placed(changes: Sequence[Change], own: Sequence[Change]) -> list[tuple[Change, tuple[int, int]]]:
    """Return the changes that are in `own`, each with the position of its new text."""
    moves = Moves(changes)
    return [
        (change, moves.new_span(index)) for index, change in enumerate(changes) if any(change is one for one in own)
    ]


def _lines(file: SourceFile, start: int, end: int) -> range:
    last = max(start, end - 1)
    return range(file.position(start)[0], file.position(last)[0] + 1)
