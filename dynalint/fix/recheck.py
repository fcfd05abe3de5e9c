"""Compare the findings before and after a fix, using the edits to match old findings to new ones.

A finding outside the changed text must be at its old position, shifted by the edits before it. The text written by a
unit must not have more findings with the same code than the text it replaced, not counting those that the unit removes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dynalint.findings import Finding
from dynalint.fix.edits import Change, Moves, merged
from dynalint.fix.model import Linted, Unit

# Codes of findings that can only be found by running code, so linting again does not find them.
ONLY_BY_RUNNING = frozenset({"DYN001", "DYN002", "DYN012"})


@dataclass(frozen=True, slots=True)
class Item:
    """A finding at the start of a round.

    `origin` is the same finding before the first round, or the finding itself if it is new. If its fix must not be
    applied, `blocked` explains why. `refuted` is the number of forms of its rewrite that running the code has
    refuted, or None if no code is run.
    """

    linted: Linted
    origin: Finding
    blocked: str | None = None
    refuted: int | None = 0

    @property
    def start(self) -> int:
        """The offset where the finding starts in its file."""
        return offset_of(self.linted)


@dataclass(frozen=True, slots=True)
class Recheck:
    """The result of a recheck.

    `blamed` are the units at fault, with reasons. `trouble` is a problem without a clear cause, and `suspects` are the
    units that may have caused it. `items` are the new findings.
    """

    blamed: Mapping[Unit, str]
    trouble: str | None
    suspects: tuple[Unit, ...]
    items: tuple[Item, ...]


def offset_of(linted: Linted) -> int:
    """Return the offset where a finding starts."""
    starts = linted.file.line_starts
    line = min(max(linted.finding.line, 1), len(starts))
    return starts[line - 1] + linted.finding.column - 1


def in_order(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return items in the same order as in reports."""
    return tuple(sorted(items, key=lambda item: item.linted.finding.sort_key))


def way(finding: Finding) -> set[str | None]:
    """Return the functions in the call chain from a root to a finding."""
    return {finding.function, *finding.region}


def recheck(
    before: Sequence[Item], after: Sequence[Linted], units: Sequence[Unit], changes: Mapping[Path, tuple[Change, ...]]
) -> Recheck:
    """Compare the findings before and after applying `units`, which together make `changes`."""
    places = _Places(units, changes)
    allowed, owners, found = _sorted_out(places, before, after, units)
    blamed: dict[Unit, str] = {}
    trouble: str | None = None
    suspects: set[Unit] = set()
    for key, present in found.items():
        if len(present) <= len(allowed[key]):
            continue
        extra = max(present, key=offset_of).finding
        owner = places.owner(key) or owners.get(key)
        still = owner is not None and extra.code in {linted.finding.code for linted in owner.linted}
        reason = (
            "the finding is still there afterwards"
            if still
            else f"it causes a new finding: {extra.path}:{extra.line}: {extra.code} {extra.message}"
        )
        if owner is None and len(units) == 1:
            owner = units[0]
        if owner is None:
            trouble = reason
            suspects.update(_near(max(present, key=offset_of), units))
        else:
            blamed.setdefault(owner, reason)
    items = [item for key, present in found.items() for item in _carried(allowed[key], present)]
    return Recheck(blamed, trouble, tuple(unit for unit in units if unit in suspects), in_order(items))


def _near(extra: Linted, units: Sequence[Unit]) -> Sequence[Unit]:
    """Return the units most likely to have caused a new finding, because they share its file or its call chain.

    If there are none, return all units, because any of them may have caused it.
    """
    on_way = way(extra.finding) - {None}
    near = [
        unit
        for unit in units
        if extra.file.path in unit.plan or any(on_way & way(linted.finding) for linted in unit.linted)
    ]
    return near or units


def brought(
    before: Sequence[Item], after: Sequence[Linted], units: Sequence[Unit], *, whole: Collection[Unit] = ()
) -> tuple[dict[Unit, list[Linted]], set[Unit]]:
    """Return the findings that are new after applying `units`, grouped by unit and sorted by position.

    Each unit must change different files. Every finding in text written by a unit in `whole` counts as new. If a
    finding is outside the text of all units, more than one of them may have caused it. Those units are returned
    separately, because their findings are unknown.
    """
    places = _Places(units, merged(unit.plan for unit in units))
    allowed, _, found = _sorted_out(places, before, after, units)
    left: dict[Unit, list[Linted]] = {unit: [] for unit in units}
    unclear: set[Unit] = set()
    for key, present in found.items():
        owner = places.owner(key)
        for one in sorted(present, key=offset_of)[0 if owner in whole else len(allowed[key]) :]:
            near = [owner] if owner is not None else _near(one, units)
            if len(near) > 1:
                unclear.update(near)
            else:
                left[near[0]].append(one)
    return {unit: sorted(new, key=lambda one: one.finding.sort_key) for unit, new in left.items()}, unclear


def _sorted_out(
    places: _Places, before: Sequence[Item], after: Sequence[Linted], units: Sequence[Unit]
) -> tuple[defaultdict[Hashable, list[Item]], dict[Hashable, Unit], defaultdict[Hashable, list[Linted]]]:
    """Group the allowed findings, the units that remove findings, and the present findings by location."""
    removed_by = {id(linted): unit for unit in units for linted in unit.linted}
    allowed: defaultdict[Hashable, list[Item]] = defaultdict(list)
    owners: dict[Hashable, Unit] = {}
    for item in before:
        key = places.before(item)
        if id(item.linted) in removed_by:
            owners[key] = removed_by[id(item.linted)]
        else:
            allowed[key].append(item)
    found: defaultdict[Hashable, list[Linted]] = defaultdict(list)
    for linted in after:
        found[places.after(linted)].append(linted)
    return allowed, owners, found


class _Places:
    """Identifies each finding by its offset in the new text, or by the unit that wrote the text around it."""

    def __init__(self, units: Sequence[Unit], changes: Mapping[Path, tuple[Change, ...]]) -> None:
        self._units = units
        self._moves = {path: Moves(wanted) for path, wanted in changes.items()}
        self._writers = {path: [self._writer(path, change) for change in wanted] for path, wanted in changes.items()}

    def _writer(self, path: Path, change: Change) -> int:
        return next(i for i, unit in enumerate(self._units) if any(change is own for own in unit.plan.get(path, ())))

    def before(self, item: Item) -> Hashable:
        path, code = item.linted.file.path, item.linted.finding.code
        moves = self._moves.get(path)
        if moves is None:
            return (path, code, item.start)
        index = moves.inside(item.start)
        return (path, code, moves.moved(item.start)) if index is None else (self._writers[path][index], code)

    def after(self, linted: Linted) -> Hashable:
        path, code, start = linted.file.path, linted.finding.code, offset_of(linted)
        moves = self._moves.get(path)
        index = None if moves is None else moves.written_by(start)
        return (path, code, start) if index is None else (self._writers[path][index], code)

    def owner(self, key: Hashable) -> Unit | None:
        """Return the unit whose text a key refers to, if any."""
        return self._units[key[0]] if isinstance(key, tuple) and isinstance(key[0], int) else None


def _carried(known: Sequence[Item], present: Sequence[Linted]) -> Iterable[Item]:
    """Copy the evidence, origin and block reason from each old finding to the matching new one."""
    known = sorted(known, key=lambda item: item.start)
    present = sorted(present, key=offset_of)
    if len(known) != len(present):
        # Some findings disappeared with the surrounding code, but which ones is unknown, so all of them inherit the
        # block.
        blocked = next((item.blocked for item in known if item.blocked), None)
        refuted = any(item.linted.finding.evidence.status == "refuted" for item in known)
        reason = blocked or ("Dynamo may trace this code without a break" if refuted else None)
        return [Item(linted, item.origin, reason) for item, linted in zip(known, present, strict=False)]
    return [
        Item(
            replace(linted, finding=replace(linted.finding, evidence=item.linted.finding.evidence)),
            item.origin,
            item.blocked,
        )
        for item, linted in zip(known, present, strict=True)
    ]


def carried(linted: Linted, changes: Sequence[Change], texts: Mapping[Path, str]) -> Linted | None:
    """Return a finding at its position after `changes`, or None if they replaced its code."""
    if not changes:
        return linted
    moves, start = Moves(changes), offset_of(linted)
    if moves.inside(start) is not None:
        return None
    finding = linted.finding
    file = replace(linted.file, text=texts[linted.file.path], tree=None, kept=None, is_read=False)
    line, column = file.position(moves.moved(start))
    end_line = finding.end_line + line - finding.line
    end_column = finding.end_column + (column - finding.column if finding.end_line == finding.line else 0)
    moved = replace(finding, line=line, column=column, end_line=end_line, end_column=end_column)
    return replace(linted, finding=moved, file=file)


def moved(items: Iterable[Item], changes: Mapping[Path, Sequence[Change]], texts: Mapping[Path, str]) -> Iterator[Item]:
    """Yield items at their positions after `changes`, except those whose code was replaced."""
    for item in items:
        path = item.linted.file.path
        linted = carried(item.linted, changes.get(path, ()), texts)
        if linted is not None:
            yield item if linted is item.linted else replace(item, linted=linted)


def count_codes(findings: Iterable[Finding]) -> str:
    """Return codes with their counts for use in a sentence, such as "DYN101, DYN401 (2)"."""
    counts = Counter(finding.code for finding in findings)
    return ", ".join(code if count == 1 else f"{code} ({count})" for code, count in sorted(counts.items()))
