"""The formats "json" (one array) and "json-lines" (one finding a line), as the contract words a finding."""

from __future__ import annotations

import json

from dynalint.report.model import Report
from dynalint.report.style import Style


def render(report: Report, style: Style) -> str:
    """Return a JSON array of all findings. ASCII only, so that no locale can change a byte of it."""
    return json.dumps([finding.to_json() for finding in report.findings], indent=2) + "\n"


def render_lines(report: Report, style: Style) -> str:
    """Return one JSON object a line."""
    return "".join(json.dumps(finding.to_json()) + "\n" for finding in report.findings)
