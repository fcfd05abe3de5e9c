"""The format "sarif", which is SARIF 2.1.0 for GitHub code scanning and editors.

It also meets GitHub's additional requirements, which are paths relative to the repository's root, all four numbers of a
region, a fingerprint with GitHub's key, and help in Markdown.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dynalint import __version__
from dynalint.adoption.fingerprints import repository_path
from dynalint.findings import Edit, Finding, Fix
from dynalint.report.json import document
from dynalint.report.model import Report
from dynalint.report.style import Style, visible

if TYPE_CHECKING:
    from dynalint.rulebook.catalogue import CodeEntry

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
PROJECT = "https://github.com/dynalint/dynalint"
LONGEST_DESCRIPTION = 1024

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_PROBLEMS = {"error": "error", "warning": "warning", "info": "recommendation"}
_PRECISIONS = {
    "refuted": "low",
    "unreached": "medium",
    "unconfirmed": "medium",
    "static": "high",
    "confirmed": "very-high",
}
_LINK = re.compile(r"\[[^\[\]]*\](?=\()")
_PLACEHOLDER = re.compile(r"\{\d+\}")
_RANKS = {"low": 0.0, "medium": 40.0, "high": 70.0, "very-high": 100.0}


def render(report: Report, style: Style) -> str:
    """Return a run with a result for each finding."""
    by_code: dict[str, list[Finding]] = {}
    for finding in report.findings:
        by_code.setdefault(finding.code, []).append(finding)
    codes = sorted(by_code)
    run = {
        "tool": {
            "driver": {
                "name": "dynalint",
                "semanticVersion": __version__,
                "informationUri": PROJECT,
                "rules": [_rule(code, by_code[code], report.entries.get(code)) for code in codes],
            }
        },
        "invocations": [
            {
                "executionSuccessful": not report.failures,
                "toolExecutionNotifications": [
                    {"level": "error", "message": {"text": _plain(text)}} for text in report.failures
                ],
            }
        ],
        "automationDetails": {"id": "dynalint/"},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, codes.index(finding.code), report.folder) for finding in report.findings],
    }
    return document({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(code: str, findings: Sequence[Finding], entry: CodeEntry | None) -> dict[str, Any]:
    first = findings[0]
    summary = entry.summary if entry else first.message
    documentation = entry.documentation.strip() if entry else first.help or first.message
    severity = entry.severity if entry else first.severity
    # GitHub sorts alerts by this property of the rule, so the best precision among the rule's findings is used.
    precision = max((_precision(finding) for finding in findings), key=_RANKS.__getitem__)
    return {
        "id": code,
        "name": first.name,
        "shortDescription": {"text": _cut(f"{summary}.")},
        "fullDescription": {"text": _cut(documentation.partition("\n\n")[0])},
        "help": {"text": documentation, "markdown": documentation},
        **({"helpUri": first.url} if first.url else {}),
        "defaultConfiguration": {"level": _LEVELS[severity]},
        "properties": {
            "tags": ["torch.compile", first.category],
            "precision": precision,
            "problem.severity": _PROBLEMS[severity],
        },
    }


def _cut(text: str) -> str:
    return textwrap.shorten(text, LONGEST_DESCRIPTION, placeholder=" ...")


def _precision(finding: Finding) -> str:
    if finding.doubt:
        return "low"
    advice = finding.category == "advice" and finding.evidence.status == "static"
    return "medium" if advice else _PRECISIONS[finding.evidence.status]


def _result(finding: Finding, index: int, folder: str) -> dict[str, Any]:
    refuted = finding.evidence.status == "refuted"
    region = _region(finding, finding)
    steps = [_place(step.path, folder, {"startLine": step.line}, f"in {step.function}") for step in finding.steps]
    here = _location(finding.path, folder, region)
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "kind": "pass" if refuted else "fail",
        "level": "none" if refuted else "note" if finding.doubt else _LEVELS[finding.severity],
        "rank": _RANKS[_precision(finding)],
        "message": {"text": _message(finding)},
        "locations": [{**here, **_logical(finding)}],
        "partialFingerprints": {
            # The key that GitHub reads, and dynalint's own key.
            "primaryLocationLineHash": finding.fingerprint,
            "dynalint/v1": finding.fingerprint,
        },
        **_flow(steps, {**here, "message": {"text": _plain(finding.message)}}),
        **_fixes(finding, folder),
        "properties": {
            "precision": _precision(finding),
            "category": finding.category,
            "gb": list(finding.gb),
            "evidence": finding.evidence.to_json(),
            "region": list(finding.region),
            "likelihood": finding.likelihood,
            "doubt": finding.doubt,
        },
    }


def _message(finding: Finding) -> str:
    """Return the message, whose first sentence GitHub uses as the title, followed by the evidence and the help."""
    evidence = finding.evidence
    parts = [f"{finding.message}."]
    if evidence.status in ("confirmed", "refuted"):
        by = f" by torch {evidence.torch}" if evidence.torch else ""
        parts.append(f"{evidence.status.capitalize()}{by}{f' ({evidence.gb})' if evidence.gb else ''}.")
    if len(finding.region) > 1:
        parts.append(f"Reached from {' > '.join(finding.region)}.")
    return _plain(" ".join([*parts, finding.help]).strip())


def _plain(text: str) -> str:
    """Return a message, escaped so that it contains none of the links and placeholders that SARIF defines."""
    text = _LINK.sub(lambda match: re.sub(r"[\[\]]", r"\\\g<0>", match[0]), visible(text))
    return _PLACEHOLDER.sub(r"{\g<0>}", text)


def _logical(finding: Finding) -> dict[str, Any]:
    if not finding.function:
        return {}
    return {"logicalLocations": [{"fullyQualifiedName": finding.function, "kind": "function"}]}


def _flow(steps: list[dict[str, Any]], here: Mapping[str, Any]) -> dict[str, Any]:
    """Return the call chain from a compiled root as steps, ending with the finding's function."""
    if not steps:
        return {}
    return {
        "codeFlows": [{"threadFlows": [{"locations": [{"location": step} for step in [*steps, here]]}]}],
        "relatedLocations": [{"id": 1, **steps[-1]}],
    }


def _fixes(finding: Finding, folder: str) -> dict[str, Any]:
    if not finding.fixable or finding.fix is None:
        return {}
    return {"fixes": [_fix(finding.fix, finding, folder)]}


def _fix(fix: Fix, finding: Finding, folder: str) -> dict[str, Any]:
    by_path: dict[str, list[Edit]] = {}
    for edit in fix.edits:
        by_path.setdefault(edit.path or finding.path, []).append(edit)
    conditions = f", if {' and '.join(fix.conditions)}" if fix.conditions else ""
    return {
        "description": {"text": _plain(f"{fix.title}{conditions}")},
        "artifactChanges": [
            {
                "artifactLocation": _artifact(path, folder),
                "replacements": [
                    {"deletedRegion": _region(edit, finding), "insertedContent": {"text": edit.content}}
                    for edit in edits
                ],
            }
            for path, edits in by_path.items()
        ],
    }


def _place(path: str, folder: str, region: Mapping[str, Any], text: str) -> dict[str, Any]:
    return {**_location(path, folder, region), "message": {"text": _plain(text)}}


def _location(path: str, folder: str, region: Mapping[str, Any]) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": _artifact(path, folder), "region": dict(region)}}


def _artifact(path: str, folder: str) -> dict[str, Any]:
    uri = quote(repository_path(path, folder), safe="/", errors="surrogateescape")
    return {"uri": uri} if path.startswith("/") else {"uri": uri, "uriBaseId": "%SRCROOT%"}


def _region(place: Finding | Edit, finding: Finding) -> dict[str, int]:
    if finding.cell is not None:  # line numbers in a cell differ from line numbers in the file
        return {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 1}
    return {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }
