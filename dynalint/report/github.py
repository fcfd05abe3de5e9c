"""The format "github": workflow commands, which the runner turns into annotations, and the summary of a step.

GitHub shows at most ten annotations of each level a step and drops the others silently, so the most important come
first and one notice counts the rest. The step summary has no such limit, only one in bytes.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from dynalint.findings import Finding
from dynalint.report.model import Report
from dynalint.report.style import Style, visible
from dynalint.report.summary import summary

LIMIT = 10
"""How many annotations of one level GitHub shows for a step."""

SUMMARY_LIMIT = 1024 * 1024
"""How many bytes GitHub takes as the summary of a step."""

_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}
_STATUSES = ("confirmed", "static", "unconfirmed", "unreached", "refuted")


def render(report: Report, style: Style) -> str:
    """Return one workflow command a line, at most `LIMIT` of each level."""
    by_level: dict[str, list[Finding]] = {"error": [], "warning": [], "notice": []}
    for finding in report.findings:
        by_level[_LEVELS[finding.severity]].append(finding)
    crowded = any(len(findings) > LIMIT for findings in by_level.values())
    shown: list[str] = []
    left_out: list[Finding] = []
    for level, findings in by_level.items():
        limit = LIMIT - 1 if crowded and level == "notice" else LIMIT
        findings.sort(key=lambda finding: (_STATUSES.index(finding.evidence.status), finding.sort_key))
        shown.extend(_annotation(level, finding, report) for finding in findings[:limit])
        left_out.extend(findings[limit:])
    if left_out:
        shown.append(_command("notice", {"title": "dynalint"}, _count(left_out)))
    return "".join(shown)


def step_summary(report: Report, room: int = SUMMARY_LIMIT) -> str:
    """Return a Markdown table of all findings that takes at most `room` bytes; what does not fit is counted."""
    text = "### dynalint\n\n" + summary(report, Style())
    if report.findings:
        text += "\n| Place | Code | Finding | Evidence |\n| --- | --- | --- | --- |\n"
    tail = "\n{} more findings did not fit here.\n"
    room -= len(text.encode()) + len(tail) + 20
    if room < 0:
        return ""
    for number, finding in enumerate(report.findings):
        row = _row(finding, report)
        room -= len(row.encode())
        if room < 0:
            return text + tail.format(len(report.findings) - number)
        text += row
    return text


def _annotation(level: str, finding: Finding, report: Report) -> str:
    properties: dict[str, object] = {
        "title": f"dynalint ({finding.code})",
        "file": _repository_path(finding, report),
        "line": finding.line,
        "endLine": finding.end_line,
    }
    if finding.line == finding.end_line:  # the runner takes columns only for a range within one line
        properties |= {"col": finding.column, "endColumn": finding.end_column}
    message = f"{finding.path}:{finding.line}:{finding.column}: {finding.code} {finding.message}"
    evidence = finding.evidence
    if evidence.status == "confirmed":
        by = f" by torch {evidence.torch}" if evidence.torch else ""
        message += f"\n  confirmed{by}" + (f": {evidence.gb}" if evidence.gb else "")
    if finding.help:
        message += f"\n  help: {finding.help}"
    return _command(level, properties, message)


def _command(level: str, properties: dict[str, object], message: str) -> str:
    listed = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    return f"::{level} {listed}::{_data(message)}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _repository_path(finding: Finding, report: Report) -> str:
    return posixpath.normpath(posixpath.join(report.folder, finding.path))


def _count(findings: Sequence[Finding]) -> str:
    codes = Counter(finding.code for finding in findings)
    listed = ", ".join(f"{number} {code}" for code, number in sorted(codes.items()))
    more = "1 more finding is" if len(findings) == 1 else f"{len(findings)} more findings are"
    return f"{more} not annotated here, as GitHub shows ten of each level: {listed}. The summary of the step has all."


def _row(finding: Finding, report: Report) -> str:
    place = f"<code>{_text(visible(_repository_path(finding, report)))}:{finding.line}</code>"
    evidence = " ".join(part for part in (finding.evidence.status, finding.evidence.gb) if part)
    return f"| {place} | {finding.code} | {_markdown(visible(finding.message))} | {evidence} |\n"


def _text(text: str) -> str:
    """Return text as HTML that Markdown leaves alone."""
    return re.sub(r"[|*_`\[\]\\~]", lambda match: f"&#{ord(match[0])};", html.escape(text))


def _markdown(text: str) -> str:
    """Return a message for a cell of a table; what stands in backticks stays code."""
    return "".join(_pieces(text.split("`")))


def _pieces(parts: Sequence[str]) -> Iterable[str]:
    for number, part in enumerate(parts):
        if number % 2 == 0:
            yield _text(part)
        elif number < len(parts) - 1:
            yield f"<code>{_text(part)}</code>"
        else:  # the last backtick has no partner
            yield _text(f"`{part}")
