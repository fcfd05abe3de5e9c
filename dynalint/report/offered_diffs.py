"""Diffs of the fixes that findings offer, built from the fixes' edits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dynalint.diffs import hunks
from dynalint.findings import Edit, Finding


def offered_diff(
    finding: Finding, lines: Mapping[str, Sequence[str]], context: int = 3
) -> Iterator[tuple[str, list[str]]]:
    """Yield each file or notebook cell that a fix changes, with the lines of its diff but without a header.

    `lines` maps files and cells, named as in `Finding.place`, to their lines without line endings. Other files and
    cells have no diff lines.
    """
    edits: dict[str, list[Edit]] = {}
    for edit in finding.fix.edits if finding.fix is not None else ():
        path = edit.path or finding.path
        edits.setdefault(path if edit.cell is None else f"{path}:cell {edit.cell}", []).append(edit)
    for place, some in edits.items():
        before = list(lines.get(place, ()))
        found = hunks(before, _edited(before, some), context) if before else ()
        yield place, [line for head, changed in found for line in (head, *changed)]


def _edited(lines: Sequence[str], edits: Sequence[Edit]) -> list[str]:
    """Return lines after applying edits that do not overlap. Insertions at the same position keep their order."""
    text = "\n".join(lines)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)

    def offset(line: int, column: int) -> int:
        return min(starts[min(line, len(starts)) - 1] + column - 1, len(text))

    last_first = sorted(enumerate(edits), key=lambda one: (one[1].line, one[1].column, one[0]), reverse=True)
    for _, edit in last_first:
        start, end = offset(edit.line, edit.column), offset(edit.end_line, edit.end_column)
        text = text[:start] + edit.content.replace("\r\n", "\n") + text[end:]
    return text.split("\n")
