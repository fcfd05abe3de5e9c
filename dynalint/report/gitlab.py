"""The format "gitlab", a Code Quality report that GitLab shows in merge requests."""

from __future__ import annotations

from typing import Any

from dynalint.adoption.fingerprints import repository_path
from dynalint.findings import Finding
from dynalint.report.json import document
from dynalint.report.model import Report
from dynalint.report.style import Style, visible

_SEVERITIES = {"error": "major", "warning": "minor", "info": "info"}


def render(report: Report, style: Style) -> str:
    """Return a JSON array with one issue per finding. Confirmed findings are critical.

    Findings in code that is rarely compiled have the severity "info".
    """
    return document([_issue(finding, report) for finding in report.findings])


def _issue(finding: Finding, report: Report) -> dict[str, Any]:
    confirmed = finding.severity == "error" and finding.evidence.status == "confirmed"
    severity = "info" if finding.doubt else "critical" if confirmed else _SEVERITIES[finding.severity]
    return {
        "check_name": finding.code,
        "description": f"{finding.code}: {visible(finding.message)}{_where(finding)}",
        "severity": severity,
        "fingerprint": finding.fingerprint,
        "location": {
            "path": repository_path(finding.path, report.folder),
            "positions": _positions(finding),
        },
    }


def _positions(finding: Finding) -> dict[str, Any]:
    if finding.cell is not None:  # line numbers in a cell differ from line numbers in the file
        return {"begin": {"line": 1, "column": 1}, "end": {"line": 1, "column": 1}}
    return {
        "begin": {"line": finding.line, "column": finding.column},
        "end": {"line": finding.end_line, "column": finding.end_column},
    }


def _where(finding: Finding) -> str:
    return "" if finding.cell is None else f" (cell {finding.cell}, line {finding.line})"
