"""Findings counted by rule, for `--statistics`."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from dynalint.findings import Finding
from dynalint.report.model import Report
from dynalint.report.style import Style


def render(report: Report, style: Style) -> str:
    """Return a table with one line for each rule: how many findings, confirmed and fixable ones, code and name."""
    rows = _rows(report)
    widths = {key: max(len(key), *(len(str(row[key])) for row in rows)) for key in rows[0]} if rows else {}
    titles = " ".join(style.paint(_pad(key, key, widths), "bold") for key in widths).rstrip()
    lines = [titles] if rows else []
    lines.extend(" ".join(_pad(key, str(row[key]), widths) for key in widths).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)


def render_json(report: Report) -> str:
    """Return the same as a JSON array."""
    return json.dumps(_rows(report), indent=2) + "\n"


def _pad(key: str, text: str, widths: dict[str, int]) -> str:
    return text.ljust(widths[key]) if key in ("code", "name") else text.rjust(widths[key])


def _rows(report: Report) -> list[dict[str, Any]]:
    by_rule: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in report.findings:
        by_rule[finding.code, finding.name].append(finding)
    return [
        {
            "found": len(findings),
            "confirmed": sum(finding.evidence.status == "confirmed" for finding in findings),
            "fixable": sum(report.applies(finding) for finding in findings),
            "code": code,
            "name": name,
        }
        for (code, name), findings in sorted(by_rule.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
