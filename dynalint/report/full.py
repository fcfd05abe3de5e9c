"""The format "full", which shows each finding with its source, its call chain, the evidence and the fix."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from dynalint.findings import Evidence, Finding, Fix
from dynalint.report.excerpt import WIDEST, excerpt
from dynalint.report.model import Report
from dynalint.report.ranking import because, most_expensive
from dynalint.report.style import SEVERITY_COLOURS, Style, visible
from dynalint.report.summary import summary

LONGEST_CHAIN = 6
FEW = 5
"""If there are this many findings or fewer, the report does not say which to fix first."""
_ARROW = " \N{RIGHTWARDS ARROW} "


def render(report: Report, style: Style) -> str:
    """Return the findings, each followed by a blank line, and a summary.

    If all findings are unconfirmed for the same reason, the reason is given once, above the summary.
    """
    obstacle = _common_obstacle(report.findings)
    blocks = ["\n".join(_finding(finding, report, style, obstacle)) + "\n\n" for finding in report.findings]
    if obstacle is not None and not report.quiet:
        blocks.append("\n".join(textwrap.wrap(f"No findings were confirmed: {visible(obstacle)}", WIDEST)) + "\n")
    return "".join(blocks) + summary(report, style) + _most_expensive(report, style)


def _most_expensive(report: Report, style: Style) -> str:
    """Return lines that name the findings to fix first, if some are known to cost more than others."""
    if report.quiet or len(report.findings) <= FEW:
        return ""
    named, alike = most_expensive(report.findings)
    among = f" ({len(named)} of {alike} like them)" if alike > len(named) else ""
    lines = [f"  {_place(finding, style)} {finding.code} {visible(because(finding))}\n" for finding in named]
    return "".join([f"Known to cost the most{among}:\n", *lines]) if lines else ""


def _place(finding: Finding, style: Style) -> str:
    return f"{style.paint(visible(finding.place), 'bold')}:{finding.line}:{finding.column}:"


def _common_obstacle(findings: Sequence[Finding]) -> str | None:
    evidence = {finding.evidence for finding in findings if finding.evidence.status != "static"}
    first = next(iter(evidence), None)
    return first.detail if len(evidence) == 1 and first is not None and first.status == "unconfirmed" else None


def _finding(finding: Finding, report: Report, style: Style, obstacle: str | None) -> Iterator[str]:
    colour = SEVERITY_COLOURS[finding.severity]
    mark = f" [{style.paint('*', 'cyan')}]" if report.applies(finding) else ""
    head = f"{style.paint(finding.code, colour, 'bold')} {style.paint(finding.name, 'bold')}{mark}"
    yield f"{head}: {visible(finding.message)}"
    digits, shown = excerpt(finding, report.lines.get(finding.place, ()), style)
    gutter = " " * digits
    arrow = style.paint("-->", "blue", "bold")
    yield f"{gutter}{arrow} {visible(finding.place)}:{finding.line}:{finding.column}"
    yield from shown
    for label, text in notes(finding, obstacle):
        room = WIDEST - len(gutter) - 3
        lines = textwrap.wrap(label + visible(text), room, break_long_words=False, break_on_hyphens=False)
        lines[0] = style.paint(lines[0][: len(label)], "bold") + lines[0][len(label) :]
        yield f"{gutter} {style.paint('=', 'blue', 'bold')} {lines[0]}"
        yield from (f"{gutter}   {line}" for line in lines[1:])


def notes(finding: Finding, obstacle: str | None) -> Iterator[tuple[str, str]]:
    """Yield the labels and texts below a finding, without evidence that only repeats `obstacle`."""
    if len(finding.region) > 1:
        yield "reached from ", _chain(finding.region)
    elif finding.function:
        yield "in ", finding.function
    evidence = _evidence(finding.evidence)
    if evidence is not None and (obstacle is None or finding.evidence.detail != obstacle):
        yield evidence
    if finding.doubt:
        yield "rarely compiled: ", finding.doubt
    if finding.help:
        yield "help: ", finding.help
    if finding.fix is not None:
        yield _fix(finding.fix)


def _chain(region: tuple[str, ...]) -> str:
    if len(region) > LONGEST_CHAIN:
        half = LONGEST_CHAIN // 2
        left_out = len(region) - 2 * half
        region = (*region[:half], f"({left_out} more)", *region[-half:])
    return _ARROW.join(region)


def _evidence(evidence: Evidence) -> tuple[str, str] | None:
    by = f" by torch {evidence.torch}" if evidence.torch else ""
    observed = ": " + " ".join(part for part in (evidence.gb, evidence.detail) if part)
    observed = observed if len(observed) > 2 else ""
    match evidence.status:
        case "confirmed":
            return f"confirmed{by}", observed
        case "refuted":
            return f"refuted{by}", observed
        case "unreached":
            return "not reached", observed
        case "unconfirmed":
            return "not confirmed", observed
        case _:
            return None


def _fix(fix: Fix) -> tuple[str, str]:
    if fix.declined is not None:
        return "no fix: ", fix.declined
    conditions = f", if {' and '.join(fix.conditions)}" if fix.conditions else ""
    match fix.safety:
        case "safe":
            return "fix: ", fix.title
        case "conditional":
            return "fix: ", f"{fix.title}{conditions}" + (" (verified)" if fix.verified else "")
        case "unsafe":
            changes = f": {'; '.join(fix.conditions)}" if fix.conditions else ""
            return "unsafe fix: ", f"{fix.title}{changes}"
        case _:
            return "suggestion: ", f"{fix.title}{conditions}"
