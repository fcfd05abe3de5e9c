"""Source excerpts for findings, with line numbers and carets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dynalint.findings import Finding
from dynalint.report.style import SEVERITY_COLOURS, Style, cells, width

CONTEXT = 2
"""The number of lines shown before and after a finding."""

LONGEST_RANGE = 6
"""The maximum number of lines shown for a finding. If there are more, the ones in the middle are omitted."""

WIDEST = 120
"""The maximum number of columns shown. A longer line is cut around the carets."""


_NEAR = 1000


def excerpt(finding: Finding, lines: Sequence[str], style: Style) -> tuple[int, list[str]]:
    """Return the width of the line numbers, and the excerpt as printed lines.

    The excerpt is empty if the finding is outside the file, for example because the file is empty.
    """
    if not 1 <= finding.line <= len(lines) or not any(lines):
        return 1, []
    end = min(max(finding.end_line, finding.line), len(lines))
    if finding.end_column == 1 and end > finding.line:
        end -= 1  # the range ends with the previous line break
    first = max(finding.line - CONTEXT, 1)
    last = min(end + CONTEXT, len(lines))
    while first < finding.line and not lines[first - 1].strip():
        first += 1
    while last > end and not lines[last - 1].strip():
        last -= 1
    gutter = len(str(last))
    bar = style.paint("|", "blue", "bold")
    printed = [f"{' ' * gutter} {bar}"]
    for number in range(first, last + 1):
        if end - finding.line + 1 > LONGEST_RANGE and finding.line + LONGEST_RANGE - 2 <= number < end:
            if number == finding.line + LONGEST_RANGE - 2:
                printed.append(style.paint("...", "blue", "bold"))
            continue
        line, span = _near(lines[number - 1], _marked(finding, number, end, lines[number - 1]))
        code, carets = _cut(cells(line), span)
        label = style.paint(f"{number:>{gutter}}", "blue", "bold")
        printed.append(f"{label} {bar} {code}".rstrip())
        if carets:
            printed.append(f"{' ' * gutter} {bar} {style.paint(carets, SEVERITY_COLOURS[finding.severity], 'bold')}")
    printed.append(f"{' ' * gutter} {bar}")
    return gutter, printed


def _marked(finding: Finding, number: int, end: int, line: str) -> tuple[int, int] | None:
    """Return the 0-based start and end of the part of line `number` that belongs to the finding."""
    if not finding.line <= number <= end:
        return None
    start = finding.column - 1 if number == finding.line else len(line) - len(line.lstrip())
    stop = finding.end_column - 1 if number == finding.end_line else len(line.rstrip())
    start = min(start, len(line))
    return (start, max(min(stop, len(line)), start)) if line.strip() or number == finding.line else None


def _near(line: str, span: tuple[int, int] | None) -> tuple[str, tuple[int, int] | None]:
    """Return the part of a long line around a span, or a short line, and the span within it."""
    start, stop = span or (0, 0)
    first, last = max(start - _NEAR, 0), min(stop, start + _NEAR) + _NEAR
    if len(line) <= 4 * _NEAR:
        return line, span
    return line[first:last], None if span is None else (start - first, min(stop, last) - first)


def _cut(code: list[str], span: tuple[int, int] | None) -> tuple[str, str]:
    """Return the code and the carets below it, both cut to `WIDEST` columns around the carets."""
    start, stop = span or (0, 0)
    first = 0
    if width("".join(code)) > WIDEST and width("".join(code[:stop])) > WIDEST - 20:
        # Keep some code before the carets, and as much of the marked code as fits.
        first = max(min(start - 20, stop - WIDEST + 40), 0)
        first = min(first, start)
    before = "\N{HORIZONTAL ELLIPSIS}" if first else ""
    shown = before + "".join(_fitting(code[first:], WIDEST - width(before)))
    if span is None:
        return shown, ""
    indent = width(before + "".join(code[first:start]))
    marked = min(width("".join(code[start:stop])), max(WIDEST - indent, 1))
    return shown, " " * indent + "^" * max(marked, 1)


def _fitting(code: Sequence[str], room: int) -> Iterator[str]:
    if width("".join(code)) <= room:
        yield from code
        return
    used = 1
    for cell in code:
        used += width(cell)
        if used > room:
            break
        yield cell
    yield "\N{HORIZONTAL ELLIPSIS}"
