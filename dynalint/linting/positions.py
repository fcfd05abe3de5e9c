"""Convert positions in a text to the positions that are displayed. In a notebook, these are lines in a cell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from dynalint.analysis.notebook import SUFFIX, Cells
from dynalint.analysis.source import SourceFile
from dynalint.findings import Edit, Finding

Place = TypeVar("Place", Finding, Edit)


def placed(finding: Finding, file: SourceFile) -> Finding:
    """Convert a finding's positions in the text of `file` to displayed positions, which can be relative to a cell."""
    cells = file.cells
    if cells is not None and cells.numbers:
        finding = _in_cell(finding, cells)
        if finding.fix is not None:
            edits = tuple(edit if edit.path else _in_cell(edit, cells) for edit in finding.fix.edits)
            finding = replace(finding, fix=replace(finding.fix, edits=edits))
    if any(step.path.endswith(SUFFIX) for step in finding.steps):
        steps = (replace(step, line=1) if step.path.endswith(SUFFIX) else step for step in finding.steps)
        finding = replace(finding, steps=tuple(steps))
    return finding


def unplaced(finding: Finding, file: SourceFile) -> Finding:
    """Convert a finding's displayed positions back to positions in the text of `file`, and remove its fix."""
    if finding.cell is None or file.cells is None:
        return finding
    line = file.cells.line(finding.cell, finding.line)
    return replace(finding, line=line, end_line=line + finding.end_line - finding.line, cell=None, fix=None)


def lines_by_place(files: Iterable[tuple[str, SourceFile]]) -> dict[str, tuple[str, ...]]:
    """Return the lines of files and cells, keyed by `Finding.place`. Each file is given with its path in findings."""
    lines: dict[str, tuple[str, ...]] = {}
    for path, file in files:
        lines[path] = file.lines
        if file.cells is not None:
            lines.update({f"{path}:cell {cell}": tuple(code.split("\n")) for cell, code in file.cells.codes().items()})
    return lines


def _in_cell(place: Place, cells: Cells) -> Place:
    cell, line = cells.place(place.line)
    # The end may be the end of the cell, which is also the start of the next cell.
    return replace(place, line=line, end_line=line + place.end_line - place.line, cell=cell)
