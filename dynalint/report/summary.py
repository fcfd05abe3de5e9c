"""The last lines of human-readable reports."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.findings import Finding
from dynalint.report.model import Report
from dynalint.report.style import Style, visible


def summary(report: Report, style: Style) -> str:
    """Return a line with the number of findings, and how many of them are confirmed, refuted and fixable.

    The result is empty if the report is `quiet`. If fixes were not computed, the line says which command computes them.
    Further lines give the number of findings that a Dynamo setting would remove, and the number of findings that are
    not listed because the code is rarely compiled.
    """
    if report.quiet:
        return ""
    total = len(report.findings)
    confirmed = sum(finding.evidence.status == "confirmed" for finding in report.findings)
    fixable = sum(report.applies(finding) for finding in report.findings)
    unsafe = sum(
        finding.fixable and finding.fix is not None and finding.fix.safety == "unsafe" and not report.applies(finding)
        for finding in report.findings
    )
    counts = []
    if confirmed:
        counts.append(f"{confirmed} confirmed")
    if report.refuted:
        counts.append(f"{report.refuted} refuted and hidden")
    if report.compared is not None and report.compared.known:
        counts.append(f"{len(report.compared.known)} hidden by the baseline")
    fixes = []
    if fixable:
        fixes.append(f"{fixable} fixable with `dynalint fix --apply`")
    if unsafe:
        fixes.append(f"{unsafe} {'more ' if fixable else ''}with `--unsafe-fixes`")
    counted = "; ".join(part for part in (", ".join(counts), ", ".join(fixes)) if part)
    details = f" ({counted})" if counted else ""
    ran = f" Code was run by {visible(report.ran_by)}." if report.ran_by else ""
    folded = _folded(report)
    if not total:
        return f"{style.paint('All checks passed!', 'green')}{details}{ran}\n{folded}"
    fix = "" if report.with_fixes or not _may_be_fixed(report) else " To see the available fixes, run `dynalint fix`."
    return f"Found {total} finding{'s' if total > 1 else ''}{details}.{ran}{fix}\n{_settings(report)}{folded}"


def settings_that_help(findings: Iterable[Finding]) -> list[tuple[str, list[Finding]]]:
    """Return the settings that avoid breaks without a code change, each with its findings.

    A setting is given as the start of a sentence. The setting that avoids the most breaks comes first. A finding's rule
    names its setting, but whether `fullgraph=True` helps is only known from a run.
    """
    found: dict[str, list[Finding]] = {}
    for one in findings:
        if one.setting:
            found.setdefault(f"With `torch._dynamo.config.{one.setting} = True`, Dynamo traces", []).append(one)
        if one.evidence.status == "confirmed" and one.evidence.fullgraph == "passes" and one.category == "graph-break":
            found.setdefault("With `torch.compile(..., fullgraph=True)`, Dynamo traced", []).append(one)
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def _settings(report: Report) -> str:
    return "".join(
        f"{how} {len(found)} of them unchanged ({', '.join(sorted({one.code for one in found}))}).\n"
        for how, found in settings_that_help(report.findings)
    )


def _may_be_fixed(report: Report) -> bool:
    """Return whether the rule of at least one finding rewrites code."""
    known = (report.entries.get(finding.code) for finding in report.findings)
    return any(entry is not None and entry.fix for entry in known)


def _folded(report: Report) -> str:
    if not report.folded:
        return ""
    what = "more" if report.findings else "finding" if report.folded == 1 else "findings"
    shown = "it" if report.folded == 1 else "them"
    return f"{report.folded} {what} in code that is rarely compiled; to see {shown}, pass `--all`.\n"
