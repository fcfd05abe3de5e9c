"""The format "junit", which is JUnit XML for CI systems with a failed test for each finding.

A finding in code that is rarely compiled becomes a skipped test.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from dynalint.findings import Finding
from dynalint.report.model import Report
from dynalint.report.runners import in_xml
from dynalint.report.style import Style, visible

_NOTHING = """\
  <testsuite name="dynalint" tests="1" failures="0" skipped="0" errors="0">
    <testcase name="No findings" classname="dynalint"/>
  </testsuite>
"""


def render(report: Report, style: Style) -> str:
    """Return one test suite per file, or a single passed test if there are no findings."""
    suites = [_suite(path, list(group)) for path, group in groupby(report.findings, key=lambda finding: finding.path)]
    if not suites:
        suites = [_NOTHING]
    counts = _counts(report.findings) if report.findings else 'tests="1" failures="0" skipped="0" errors="0"'
    return in_xml(
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites name="dynalint" {counts}>\n'
        f"{''.join(suites)}</testsuites>\n"
    )


def _suite(path: str, findings: list[Finding]) -> str:
    cases = "".join(map(_case, findings))
    return f"  <testsuite name={_attribute(path)} {_counts(findings)}>\n{cases}  </testsuite>\n"


def _counts(findings: Sequence[Finding]) -> str:
    skipped = sum(bool(finding.doubt) for finding in findings)
    return f'tests="{len(findings)}" failures="{len(findings) - skipped}" skipped="{skipped}" errors="0"'


def _case(finding: Finding) -> str:
    place = f"{finding.place}:{finding.line}:{finding.column}"
    evidence = " ".join(part for part in (finding.evidence.status, finding.evidence.gb) if part)
    text = [f"{place}: {finding.code} {finding.message}", f"evidence: {evidence}"]
    if len(finding.region) > 1:
        text.append(f"reached from {' > '.join(finding.region)}")
    if finding.help:
        text.append(f"help: {finding.help}")
    if finding.doubt:
        text.append(f"rarely compiled: {finding.doubt}")
    body = escape("\n".join(map(visible, text)))
    return (
        f"    <testcase name={_attribute(f'{finding.code} {finding.name}')} classname={_attribute(finding.path)}"
        f' file={_attribute(finding.path)} line="{finding.line}">\n'
        f"      {_outcome(finding, body)}\n"
        "    </testcase>\n"
    )


def _outcome(finding: Finding, body: str) -> str:
    message = f"message={_attribute(finding.message)}"
    if finding.doubt:
        return f"<skipped {message}>{body}</skipped>"
    return f"<failure type={_attribute(finding.code)} {message}>{body}</failure>"


def _attribute(text: str) -> str:
    # XML cannot represent most control characters, or surrogates.
    return quoteattr(visible(text))
