"""Convert findings to the language server protocol's diagnostics, edits and hovers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from lsprotocol import types
from pygls.uris import from_fs_path
from pygls.workspace import PositionCodec

from dynalint.findings import Edit, Finding, Fix, shortened
from dynalint.report.markdown import fence, prose
from dynalint.report.style import visible
from dynalint.rulebook.catalogue import CodeEntry

Lines = Sequence[str]

_MOST_LINES = 100
_WIDEST = 400

# Graph breaks and recompilations only make code slower. Editors use errors for code that fails.
_FAILURES = ("miscompile", "error")
_LONGEST_TITLE = 120

_VERDICTS = {
    "confirmed": "Confirmed",
    "refuted": "Refuted",
    "unreached": "Not reached",
    "unconfirmed": "Not confirmed",
}
_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "info": types.DiagnosticSeverity.Information,
}


def uri_of(path: Path) -> str:
    """Return the URI of a file."""
    uri = from_fs_path(str(path))
    return str(uri)


def position(codec: PositionCodec, lines: Lines, line: int, column: int) -> types.Position:
    """Convert a 1-based line and column in characters to a position in the client's units."""
    text = lines[line - 1] if 1 <= line <= len(lines) else ""
    return types.Position(max(line - 1, 0), codec.client_num_units(text[: column - 1]))


def span(codec: PositionCodec, lines: Lines, place: Finding | Edit) -> types.Range:
    """Return the range of a finding or edit."""
    start = position(codec, lines, place.line, place.column)
    return types.Range(start, position(codec, lines, place.end_line, place.end_column))


def diagnostic(finding: Finding, where: types.Range, locate: Callable[[str], str]) -> types.Diagnostic:
    """Convert a finding to a diagnostic. `locate` returns the URI for a path in the call chain."""
    steps = finding.steps[:-1]
    related = [
        types.DiagnosticRelatedInformation(
            types.Location(
                locate(step.path), types.Range(types.Position(step.line - 1, 0), types.Position(step.line, 0))
            ),
            f"reached from {visible(step.function)}",
        )
        for step in steps
    ]
    message = finding.message[:1].upper() + finding.message[1:]
    return types.Diagnostic(
        range=where,
        message="\n".join(visible(text) for text in (message, _doubt(finding), _verdict(finding)) if text),
        severity=_severity(finding),
        code=finding.code,
        code_description=types.CodeDescription(finding.url) if finding.url else None,
        source="dynalint",
        related_information=related or None,
        data={"fingerprint": finding.fingerprint},
    )


def _severity(finding: Finding) -> types.DiagnosticSeverity:
    if finding.evidence.status == "refuted" or finding.doubt:
        return types.DiagnosticSeverity.Hint
    if finding.severity == "error" and finding.category not in _FAILURES:
        return types.DiagnosticSeverity.Warning
    return _SEVERITIES[finding.severity]


def _doubt(finding: Finding) -> str:
    return f"Rarely compiled: {finding.doubt}" if finding.doubt else ""


def _verdict(finding: Finding) -> str:
    """Return the verdict from the last confirmation as a single line."""
    evidence = finding.evidence
    if evidence.status == "static":
        return ""
    by = f" by torch {evidence.torch}" if evidence.torch else ""
    shown = " ".join(part for part in (evidence.gb, evidence.detail) if part)
    return f"{_VERDICTS[evidence.status]}{by} when it was last run" + (f": {shown}" if shown else "")


def hover(finding: Finding, diff: str, *, chain: bool) -> str:
    """Return what an editor does not show with the diagnostic, as Markdown, with the chain of calls if `chain` is true.

    Editors show the diagnostic's message together with the hover, and some of them also its related information.
    """
    parts = [f"**{finding.code}** [{finding.name}]({finding.url})"]
    if chain and len(finding.region) > 1:
        parts.append("Reached from " + " → ".join(prose(f"`{name}`") for name in finding.region))
    if finding.help:
        parts.append(prose(finding.help))
    if finding.fix is not None:
        parts.extend(_offered(finding.fix, diff))
    return "\n\n".join(parts)


def _offered(fix: Fix, diff: str) -> Iterator[str]:
    if fix.declined is not None:
        yield f"No fix: {prose(fix.declined)}"
        return
    offered = f"Fix ({fix.safety}): {prose(fix.title)}"
    match fix.conditions:
        case ():
            yield offered
        case (condition,):
            yield f"{offered}, if {prose(condition)}"
        case conditions:
            yield "\n".join([f"{offered}, if", *(f"* {prose(condition)}" for condition in conditions)])
    yield fence(_shown(diff), "diff")


def action_title(finding: Finding, fix: Fix) -> str:
    """Return the title of the code action for a fix. It omits the conditions if they are too long for a menu."""
    title = visible(f"{finding.code}: {fix.title}")
    if fix.safety == "safe" or not fix.conditions:
        return title
    whole = visible(f"{title} ({fix.safety}: if {' and '.join(fix.conditions)})")
    return whole if len(whole) <= _LONGEST_TITLE else f"{title} ({fix.safety})"


def _shown(diff: str) -> list[str]:
    """Return the lines of a diff, limited to what fits in a hover."""
    lines = [visible(shortened(line.expandtabs(4), _WIDEST)) for line in diff.split("\n")]
    return lines if len(lines) <= _MOST_LINES else [*lines[:_MOST_LINES], "..."]


def rule_text(entry: CodeEntry) -> str:
    """Return a rule's documentation as Markdown."""
    return f"**{entry.code}** [{entry.name}]({entry.url}): {entry.summary}\n\n{entry.documentation}"


def within(place: types.Range, other: types.Range) -> bool:
    """Return whether two ranges overlap or touch."""
    ends = (place.start.line, place.start.character), (place.end.line, place.end.character)
    others = (other.start.line, other.start.character), (other.end.line, other.end.character)
    return ends[0] <= others[1] and others[0] <= ends[1]


def new_text(codec: PositionCodec, before: Lines, after: Lines) -> Iterable[types.TextEdit]:
    """Return the edit that turns `before` into `after`, leaving out common lines at the start and end."""
    first = next((n for n, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), None)
    if first is None:
        first = min(len(before), len(after))
        if len(before) == len(after):
            return []
    last = 0
    while last < min(len(before), len(after)) - first and before[-1 - last] == after[-1 - last]:
        last += 1
    stop, lines = len(before) - last, after[first : len(after) - last]
    start = types.Position(first, 0)
    if last:
        return [types.TextEdit(types.Range(start, types.Position(stop, 0)), "".join(f"{line}\n" for line in lines))]
    end = position(codec, before, stop, len(before[stop - 1]) + 1)
    return [types.TextEdit(types.Range(start, end), "\n".join(lines))]
