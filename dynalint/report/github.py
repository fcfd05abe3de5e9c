"""The format "github", which consists of workflow commands that GitHub turns into annotations.

GitHub shows at most ten annotations of each level per step and silently drops the rest. For this reason, the most
important annotations come first, and a notice gives the number of other findings. The step summary, in Markdown, lists
all findings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dynalint.adoption.fingerprints import repository_path
from dynalint.findings import STATUSES, Finding
from dynalint.report.model import Report
from dynalint.report.style import Style, visible

LIMIT = 10
"""The maximum number of annotations of each level that GitHub shows for a step."""

_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


def render(report: Report, style: Style) -> str:
    """Return one workflow command per line, at most `LIMIT` of each level."""
    by_level: dict[str, list[Finding]] = {"error": [], "warning": [], "notice": []}
    for finding in report.findings:
        by_level[_LEVELS[finding.severity]].append(finding)
    crowded = any(len(findings) > LIMIT for findings in by_level.values())
    shown: list[str] = []
    left_out: list[Finding] = []
    for level, findings in by_level.items():
        limit = LIMIT - 1 if crowded and level == "notice" else LIMIT
        findings.sort(key=lambda finding: (STATUSES.index(finding.evidence.status), finding.sort_key))
        shown.extend(_annotation(level, finding, report) for finding in findings[:limit])
        left_out.extend(findings[limit:])
    if left_out:
        shown.append(_command("notice", {"title": "dynalint"}, _count(left_out)))
    return "".join(shown)


def _annotation(level: str, finding: Finding, report: Report) -> str:
    properties: dict[str, object] = {
        "title": f"dynalint ({finding.code})",
        "file": repository_path(finding.path, report.folder),
        "line": finding.line,
        "endLine": finding.end_line,
    }
    if finding.cell is not None:  # line numbers in a cell differ from line numbers in the file
        del properties["line"], properties["endLine"]
    elif finding.line == finding.end_line:  # GitHub only accepts columns for a range within one line
        properties |= {"col": finding.column, "endColumn": finding.end_column}
    place = f"{visible(finding.place)}:{finding.line}:{finding.column}"
    message = f"{place}: {finding.code} {visible(finding.message)}"
    evidence = finding.evidence
    if evidence.status == "confirmed":
        by = f" by torch {evidence.torch}" if evidence.torch else ""
        message += f"\n  confirmed{by}" + (f": {evidence.gb}" if evidence.gb else "")
    if finding.help:
        message += f"\n  help: {visible(finding.help)}"
    return _command(level, properties, message)


def _command(level: str, properties: dict[str, object], message: str) -> str:
    listed = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    return f"::{level} {listed}::{_data(message)}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(visible(text)).replace(":", "%3A").replace(",", "%2C")


def _count(findings: Sequence[Finding]) -> str:
    codes = Counter(finding.code for finding in findings)
    listed = ", ".join(f"{number} {code}" for code, number in sorted(codes.items()))
    more = "1 more finding is" if len(findings) == 1 else f"{len(findings)} more findings are"
    return (
        f"{more} not annotated here, because GitHub only shows ten annotations of each level: {listed}. The job "
        "summary lists all findings."
    )
