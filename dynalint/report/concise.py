"""The format "concise": one line for each finding, and a summary."""

from __future__ import annotations

from dynalint.report.model import Report
from dynalint.report.style import SEVERITY_COLOURS, Style, visible
from dynalint.report.summary import summary


def render(report: Report, style: Style) -> str:
    """Return "path:line:column: CODE [*] message" lines and a summary. [*] marks findings that can be fixed."""
    lines = []
    for finding in report.findings:
        colour = SEVERITY_COLOURS[finding.severity]
        separator = style.paint(":", "cyan")
        file = style.paint(visible(finding.place), "bold")
        place = separator.join([file, str(finding.line), str(finding.column), ""])
        mark = f"[{style.paint('*', 'cyan')}] " if report.applies(finding) else ""
        lines.append(f"{place} {style.paint(finding.code, colour, 'bold')} {mark}{visible(finding.message)}\n")
    return "".join(lines) + summary(report, style)
