"""The format "junit": XML that test reports of CI systems are made from, a failed test for each finding."""

from __future__ import annotations

from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from dynalint.findings import Finding
from dynalint.report.model import Report
from dynalint.report.runners import in_xml
from dynalint.report.style import Style, visible

_NOTHING = """\
  <testsuite name="dynalint" tests="1" failures="0" errors="0">
    <testcase name="No findings" classname="dynalint"/>
  </testsuite>
"""


def render(report: Report, style: Style) -> str:
    """Return a test suite for each file; one passed test where nothing was found."""
    suites = [_suite(path, list(group)) for path, group in groupby(report.findings, key=lambda finding: finding.path)]
    total = len(report.findings)
    if not suites:
        suites = [_NOTHING]
    return in_xml(
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites name="dynalint" tests="{total or 1}" failures="{total}" errors="0">\n'
        f"{''.join(suites)}</testsuites>\n"
    )


def _suite(path: str, findings: list[Finding]) -> str:
    count = len(findings)
    cases = "".join(map(_case, findings))
    name = _attribute(path)
    return f'  <testsuite name={name} tests="{count}" failures="{count}" errors="0">\n{cases}  </testsuite>\n'


def _case(finding: Finding) -> str:
    place = f"{finding.place}:{finding.line}:{finding.column}"
    evidence = " ".join(part for part in (finding.evidence.status, finding.evidence.gb) if part)
    text = [f"{place}: {finding.code} {finding.message}", f"evidence: {evidence}"]
    if len(finding.region) > 1:
        text.append(f"reached from {' > '.join(finding.region)}")
    if finding.help:
        text.append(f"help: {finding.help}")
    body = escape("\n".join(map(visible, text)))
    return (
        f"    <testcase name={_attribute(f'{finding.code} {finding.name}')} classname={_attribute(finding.path)}"
        f' file={_attribute(finding.path)} line="{finding.line}">\n'
        f"      <failure type={_attribute(finding.code)} message={_attribute(finding.message)}>{body}</failure>\n"
        "    </testcase>\n"
    )


def _attribute(text: str) -> str:
    # XML has no way to write most control characters and surrogates.
    return quoteattr(visible(text))
