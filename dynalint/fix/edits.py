"""Apply a rule's rewrite to a file's text. A rewrite is applied completely or not at all, and nothing else changes.

Offsets count characters in `SourceFile.text`, as in `Replacement`. New lines use the file's own line ending.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from dynalint.analysis.source import SourceFile
from dynalint.findings import Edit
from dynalint.fix.imports import EditError, bound_name, import_place
from dynalint.rules import Rewrite


@dataclass(frozen=True, slots=True)
class Change:
    """Replace the characters from offset `start` up to `end` with `content`.

    `shared` marks an import that more than one rewrite can add at the same position. It is added only once.
    """

    start: int
    end: int
    content: str
    shared: bool = False

    @property
    def inserts_lines(self) -> bool:
        """Whether the change inserts whole lines and deletes nothing."""
        return self.start == self.end and "\n" in self.content.replace("\r", "\n")


Plan = Mapping[Path, tuple[Change, ...]]
"""All changes that a rewrite makes, by file. They are sorted and do not overlap."""


def plan_of(rewrite: Rewrite) -> Plan:
    """Return the changes that a rewrite makes, including the imports it needs.

    Raises:
        EditError: If the replacements overlap, change nothing, reach outside the text, contain a character that the
            file's encoding lacks, or need a name that the file uses for something else.
    """
    files: dict[Path, SourceFile] = {}
    changes: dict[Path, list[Change]] = {}
    for replacement in rewrite.replacements:
        file = replacement.file
        files.setdefault(file.path, file)
        if not 0 <= replacement.start <= replacement.end <= len(file.text):
            raise EditError("its edits reach outside the file")
        content = _own_newlines(replacement.content, file)
        _check_encodable(content, file)
        changes.setdefault(file.path, []).append(Change(replacement.start, replacement.end, content))
    for path, wanted in changes.items():
        for statement in rewrite.imports:
            if len(files) == 1 or any(_mentions(change.content, statement) for change in wanted):
                place = import_place(files[path], statement)
                if place is not None:
                    changes[path] = [*changes[path], Change(place[0], place[0], place[1], shared=True)]
        changes[path] = _in_order(changes[path])
        if any(left.end > right.start for left, right in pairwise(changes[path])):
            raise EditError("its edits overlap each other")
    if all(replaced(files[path].text, plan) == files[path].text for path, plan in changes.items()):
        raise EditError("its edits change nothing")
    return {path: tuple(plan) for path, plan in changes.items()}


def collide(left: Change, right: Change) -> bool:
    """Return whether two changes to the same text conflict.

    Adding the same import twice is not a conflict, and neither is inserting whole lines at the same position.
    """
    if left == right:
        return not left.shared
    if left.start == right.start and left.inserts_lines and right.inserts_lines:
        return False
    return left.start <= right.end and right.start <= left.end


def merged(plans: Iterable[Plan]) -> dict[Path, tuple[Change, ...]]:
    """Return the combined changes from compatible plans, sorted, with each shared change included only once."""
    changes: dict[Path, list[Change]] = {}
    for plan in plans:
        for path, wanted in plan.items():
            known = changes.setdefault(path, [])
            known += [change for change in wanted if not (change.shared and change in known)]
    return {path: tuple(_in_order(wanted)) for path, wanted in changes.items()}


class Accepted:
    """The plans chosen so far in a round."""

    def __init__(self) -> None:
        self._changes: dict[Path, list[Change]] = {}

    def add(self, plan: Plan) -> bool:
        """Add `plan` if it is compatible with the plans chosen so far, and return whether it was added."""
        for path, wanted in plan.items():
            known = self._changes.get(path, ())
            if any(collide(mine, other) for mine in known for other in wanted):
                return False
        for path, wanted in plan.items():
            self._changes.setdefault(path, []).extend(wanted)
        return True


def replaced(text: str, changes: Sequence[Change]) -> str:
    """Apply `changes`, which must be sorted, to `text`."""
    pieces: list[str] = []
    position = 0
    for change in changes:
        pieces += [text[position : change.start], change.content]
        position = change.end
    return "".join([*pieces, text[position:]])


class Moves:
    """Maps positions in a text to positions after `changes` are applied. The changes must be sorted."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self._changes = changes
        self._starts = [change.start for change in changes]
        self._ends = [change.end for change in changes]
        self._shifts = [0]
        for change in changes:
            self._shifts.append(self._shifts[-1] + len(change.content) - (change.end - change.start))

    def inside(self, offset: int) -> int | None:
        """Return the index of the change that replaces the character at `offset`, or None if it is not replaced."""
        index = bisect_right(self._starts, offset) - 1
        while index >= 0 and self._starts[index] == self._ends[index]:
            index -= 1
        return index if index >= 0 and offset < self._ends[index] else None

    def moved(self, offset: int) -> int:
        """Return the new offset of the character at `offset`, or where its replacement starts if it is replaced."""
        index = self.inside(offset)
        if index is not None:
            return self._starts[index] + self._shifts[index]
        return offset + self._shifts[bisect_right(self._ends, offset)]

    def new_span(self, index: int) -> tuple[int, int]:
        """Return where change `index` starts and ends in the new text."""
        start = self._starts[index] + self._shifts[index]
        return start, start + len(self._changes[index].content)

    def written_by(self, offset: int) -> int | None:
        """Return the index of the change that wrote the character at `offset` in the new text."""
        for index in range(len(self._changes)):
            start, end = self.new_span(index)
            if start <= offset < end:
                return index
        return None


def to_edits(rewrite: Rewrite, file: SourceFile, name: Callable[[SourceFile], str]) -> tuple[Edit, ...]:
    """Convert a rewrite to line and column edits for a finding in `file`. `name` formats the path of any other file.

    Raises EditError if the rewrite cannot be applied.
    """
    files = {replacement.file.path: replacement.file for replacement in rewrite.replacements}
    edits: list[Edit] = []
    for path, changes in sorted(plan_of(rewrite).items(), key=lambda item: (item[0] != file.path, item[0])):
        edits += edits_of(changes, files[path], None if path == file.path else name(files[path]))
    return tuple(edits)


def edits_of(changes: Iterable[Change], source: SourceFile, path: str | None = None) -> Iterator[Edit]:
    """Yield `changes` to the text of `source` as line and column edits."""
    for change in changes:
        yield Edit(*source.position(change.start), *source.position(change.end), change.content, path)


def _in_order(changes: Iterable[Change]) -> list[Change]:
    """Sort changes by position only. The sort is stable, so lines inserted at the same position keep their order."""
    return sorted(changes, key=lambda change: (change.start, change.end))


def _own_newlines(content: str, file: SourceFile) -> str:
    return content if file.newline == "\n" else re.sub(r"(?<!\r)\n", file.newline, content)


def _check_encodable(content: str, file: SourceFile) -> None:
    try:
        content.encode(file.encoding)
    except UnicodeEncodeError as fault:
        character = content[fault.start]
        why = f"the new code contains {character!r}, which cannot be written in the file's encoding {file.encoding}"
        raise EditError(why) from None


def _mentions(content: str, statement: str) -> bool:
    """Return whether the new code uses the name that an import statement binds."""
    return re.search(rf"(?<![\w.]){re.escape(bound_name(statement))}\b", content) is not None
