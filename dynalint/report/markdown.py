"""The format "markdown", a table of all findings for a comment or a GitHub step summary.

Text from the checked code is escaped, so that it cannot end a code span or create a link, image, tag or mention.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from dynalint.adoption.fingerprints import repository_path
from dynalint.findings import Finding
from dynalint.report.model import Report
from dynalint.report.style import Style, visible
from dynalint.report.summary import summary

SUMMARY_LIMIT = 1024 * 1024
"""GitHub's size limit for a step summary, in bytes."""


def render(report: Report, style: Style) -> str:
    """Return the whole table."""
    return _head(report) + "".join(_row(finding, report) for finding in report.findings)


def step_summary(report: Report, room: int = SUMMARY_LIMIT) -> str:
    """Return a Markdown table of findings in at most `room` bytes, with the number of findings that do not fit."""
    text = _head(report)
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


def _head(report: Report) -> str:
    text = "### dynalint\n\n" + summary(report, Style())
    if report.findings:
        text += "\n| Location | Code | Finding | Evidence |\n| --- | --- | --- | --- |\n"
    return text


def _row(finding: Finding, report: Report) -> str:
    path = repository_path(finding.place, report.folder)
    place = f"<code>{_text(visible(path))}:{finding.line}</code>"
    evidence = " ".join(part for part in (finding.evidence.status, finding.evidence.gb) if part)
    return f"| {place} | {_code(finding)} | {_markdown(visible(finding.message))} | {evidence} |\n"


def _code(finding: Finding) -> str:
    return f"[{finding.code}]({finding.url})" if finding.url else finding.code


# Characters with a special meaning in Markdown, and parts of URLs that GitHub automatically turns into links.
_MARKS = re.compile(r"[|*_`\[\]\\~]|:(?=//)|(?i:(?<=www)\.)")
# A mention notifies a person or a team, or leaves a note on an issue, unless the marker is separated from the word.
_MENTION = re.compile(r"(?<![&\w])#(?=\w)|@(?=\w)")
_CODE = re.compile(r"(?<!`)`[^`]+`(?!`)")


def prose(text: str) -> str:
    """Return a sentence as Markdown. Text in backticks becomes code if the backticks are paired."""
    text = visible(text)
    parts, codes = _CODE.split(text), _CODE.findall(text)
    if any("`" in part for part in parts):
        return _text(text, quote=False)
    texts = [_text(part, quote=False) for part in parts]
    return texts[0] + "".join(code + rest for code, rest in zip(codes, texts[1:], strict=True))


def fence(lines: Sequence[str], language: str) -> str:
    """Return lines as a fenced code block with a fence that none of the lines can close."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    marks = "`" * max(3, longest + 1)
    return "\n".join([f"{marks}{language}", *lines, marks])


def _text(text: str, *, quote: bool = True) -> str:
    """Return text as HTML that Markdown does not change. If `quote` is true, it can also be used in an attribute."""
    escaped = _MARKS.sub(lambda match: f"&#{ord(match[0])};", html.escape(text, quote=quote))
    return _MENTION.sub(r"\g<0>&#8203;", escaped)


def _markdown(text: str) -> str:
    """Return a message for a table cell. Text in backticks becomes code."""
    return "".join(_pieces(text.split("`")))


def _pieces(parts: Sequence[str]) -> Iterable[str]:
    for number, part in enumerate(parts):
        if number % 2 == 0:
            yield _text(part)
        elif number < len(parts) - 1:
            yield f"<code>{_text(part)}</code>"
        else:  # the backtick is unpaired
            yield _text(f"`{part}")
