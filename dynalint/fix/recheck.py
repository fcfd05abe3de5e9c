"""Comparing the findings before and after a fix, which are related to each other by the edits between them.

A finding outside the changed text must be at its old position, moved by the edits before it. The text that a unit wrote
must not contain more findings of a code than the text it replaced, minus those that the unit removes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dynalint.findings import Finding
from dynalint.fix.edits import Change, Moves, merged
from dynalint.fix.model import Linted, Unit

# Codes of findings that only a run can show; linting again does not detect them.
ONLY_BY_RUNNING = frozenset({"DYN001", "DYN002", "DYN012"})


@dataclass(frozen=True, slots=True)
class Item:
    """A finding in the state at the beginning of a round.

    `origin` is the corresponding finding in the first state, itself if there is none. `blocked` is the reason why its
    fix must not be applied, if any.
    """

    linted: Linted
    origin: Finding
    blocked: str | None = None

    @property
    def start(self) -> int:
        """Offset of the finding in its file."""
        return offset_of(self.linted)


@dataclass(frozen=True, slots=True)
class Recheck:
    """The `blamed` units with reasons, `trouble` without a clear cause and its `suspects`, and the new items."""

    blamed: Mapping[Unit, str]
    trouble: str | None
    suspects: tuple[Unit, ...]
    items: tuple[Item, ...]


def offset_of(linted: Linted) -> int:
    """Return the offset at which a finding starts."""
    starts = linted.file.line_starts
    line = min(max(linted.finding.line, 1), len(starts))
    return starts[line - 1] + linted.finding.column - 1


def in_order(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return items in the order of reports."""
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
    """Return the units that most likely cause a new finding: in the same file, or in the same call chain from a root.

    If there are none, any unit may have caused it.
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

    Each unit changes other files.

    Every finding in text written by a unit in `whole` is new. A finding outside the text of all units may have several
    causes; those units are returned separately, since their findings are not known.
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
    """Return, by place, the findings allowed afterwards, the units that remove one, and the findings present."""
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
        """The unit whose text contains a key, if any."""
        return self._units[key[0]] if isinstance(key, tuple) and isinstance(key[0], int) else None


def _carried(known: Sequence[Item], present: Sequence[Linted]) -> Iterable[Item]:
    """Copy evidence, origin and block reasons from the old findings to the corresponding new ones."""
    known = sorted(known, key=lambda item: item.start)
    present = sorted(present, key=offset_of)
    if len(known) != len(present):
        # Some disappeared with the surrounding code, but it is not known which. Any that may be blocked stays blocked.
        blocked = next((item.blocked for item in known if item.blocked), None)
        refuted = any(item.linted.finding.evidence.status == "refuted" for item in known)
        reason = blocked or ("it may be a place that Dynamo traces without a break" if refuted else None)
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
    """Return a finding at its position after `changes`; None if they replaced its code."""
    if not changes:
        return linted
    moves, start = Moves(changes), offset_of(linted)
    if moves.inside(start) is not None:
        return None
    finding = linted.finding
    file = replace(linted.file, text=texts[linted.file.path], tree=None, data=None)
    line, column = file.position(moves.moved(start))
    end_line = finding.end_line + line - finding.line
    end_column = finding.end_column + (column - finding.column if finding.end_line == finding.line else 0)
    moved = replace(finding, line=line, column=column, end_line=end_line, end_column=end_column)
    return replace(linted, finding=moved, file=file)


def moved(items: Iterable[Item], changes: Mapping[Path, Sequence[Change]], texts: Mapping[Path, str]) -> Iterator[Item]:
    """Yield items without a fix at their positions after `changes`, except those whose code was replaced."""
    for item in items:
        path = item.linted.file.path
        linted = carried(item.linted, changes.get(path, ()), texts)
        if linted is not None:
            yield item if linted is item.linted else replace(item, linted=linted)


def count_codes(findings: Iterable[Finding]) -> str:
    """Return codes with their counts for a sentence: "DYN101, DYN401 (2)"."""
    counts = Counter(finding.code for finding in findings)
    return ", ".join(code if count == 1 else f"{code} ({count})" for code, count in sorted(counts.items()))
