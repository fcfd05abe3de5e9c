"""The format "grouped", which lists each file's findings below its name, followed by a summary."""

from __future__ import annotations

from itertools import groupby

from dynalint.report.model import Report
from dynalint.report.style import SEVERITY_COLOURS, Style, visible
from dynalint.report.summary import summary


def render(report: Report, style: Style) -> str:
    """Return the name of each file, followed by one aligned line per finding, and a summary."""
    blocks = []
    for place, group in groupby(report.findings, key=lambda finding: finding.place):
        findings = list(group)
        line_width = max(len(str(finding.line)) for finding in findings)
        column_width = max(len(str(finding.column)) for finding in findings)
        lines = [f"{style.paint(visible(place), 'bold')}:\n"]
        for finding in findings:
            colour = SEVERITY_COLOURS[finding.severity]
            where = f"{finding.line:>{line_width}}{style.paint(':', 'cyan')}{finding.column:<{column_width}}"
            mark = f"[{style.paint('*', 'cyan')}] " if report.applies(finding) else ""
            lines.append(f"  {where} {style.paint(finding.code, colour, 'bold')} {mark}{visible(finding.message)}\n")
        blocks.append("".join(lines) + "\n")
    return "".join(blocks) + summary(report, style)
