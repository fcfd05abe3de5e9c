"""The formats "json" (one array) and "json-lines" (one object per line). Findings have documented keys."""

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
    """Return one JSON object per line."""
    return "".join(document(finding.to_json(), indent=None) for finding in report.findings)


def document(value: Any, indent: int | None = 2) -> str:
    """Return a value as JSON in the form used by all JSON-based formats.

    The text is ASCII, so that it does not depend on the locale, and contains nothing that a CI runner would interpret
    as a command.
    """
    return in_json(json.dumps(value, indent=indent)) + "\n"
