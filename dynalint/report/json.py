"""The formats "json" (one array) and "json-lines" (one finding a line), as the contract words a finding."""

from __future__ import annotations

import json
from typing import Any

from dynalint.report.model import Report
from dynalint.report.runners import in_json
from dynalint.report.style import Style


def render(report: Report, style: Style) -> str:
    """Return a JSON array of all findings."""
    return document([finding.to_json() for finding in report.findings])


def render_lines(report: Report, style: Style) -> str:
    """Return one JSON object a line."""
    return "".join(document(finding.to_json(), indent=None) for finding in report.findings)


def document(value: Any, indent: int | None = 2) -> str:
    """Return a value as every format in JSON has it.

    That is ASCII only, so that no locale can change a byte of it, and without what a runner would take for a command.
    """
    return in_json(json.dumps(value, indent=indent)) + "\n"
