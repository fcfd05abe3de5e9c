"""Ignore comments: `# dynalint: ignore[DYN101] -- reason`, `# dynalint: ignore-file[DYN4]`, `# noqa`.

A pair of `# dynalint: disable[DYN4]` and `# dynalint: enable[DYN4]`, each on its own line, covers the lines in between.

Comments are found in a file's tokens, so text in strings does not count. A comment at the end of a line covers that
line. If a statement ends there, the comment covers the whole statement, or only the header of a compound statement. A
comment on its own line covers the next statement.
"""

from __future__ import annotations

import re
import tokenize
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from dynalint.analysis.source import SourceFile
from dynalint.config import nearest
from dynalint.findings import Finding
from dynalint.rules import Replacement, Rewrite

UNUSED_CODE = "DYN902"
UNUSED_NAME = "unused-suppression"

_HINTS = ("dynalint:", "noqa")
# A noqa that names dynalint codes, and a noqa that may cover them because it does not only list other linters' codes.
_CODED_NOQA = re.compile(r"noqa\s*:")
_BARE_NOQA = re.compile(r"noqa(?!\s*:|\w)")
# A second directive in the same comment, as in `# dynalint: ignore[DYN101]  # type: ignore`, ends the reason.
_NATIVE = re.compile(
    r"#\s*dynalint:\s*(?P<word>[\w-]*)\s*(?:\[(?P<codes>[^\]]*)\])?(?P<rest>(?:[^#\n]+|(?<!\s)#|#(?!\s|noqa))*)"
)
_NOQA = re.compile(
    r"#\s*noqa(?:\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[\s,]+[A-Z]+[0-9]+)*)|(?!\s*:|\w))",
    re.IGNORECASE,
)
_WORDS = ("ignore", "ignore-file", "disable", "enable")
_NO_CODE = frozenset(
    {tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}
)


@dataclass(frozen=True, slots=True)
class Suppression:
    """A comment that silences findings.

    `codes` are the codes and prefixes as written, or empty for a `noqa` that covers everything. The comment covers
    `first_line` to `last_line`. It is on `line`, from `column` to `end_column`, and the codes in its brackets are at
    `codes_column` to `codes_end`. All of these are 1-based, columns count characters, and ends are exclusive. If the
    comment is invalid, `fault` explains why it silences nothing. `end` is the `enable` comment that ends the range of a
    `disable` comment.
    """

    kind: Literal["ignore", "ignore-file", "disable", "enable", "noqa"]
    codes: tuple[str, ...]
    first_line: int
    last_line: int
    line: int
    column: int
    end_column: int
    codes_column: int = 0
    codes_end: int = 0
    reason: str = ""
    fault: str = ""
    end: Suppression | None = None

    def silencing(self, finding: Finding, last_line: int) -> str | None:
        """Return the code that silences a finding that ends on `last_line`, "" for all codes, or None."""
        covered = self.kind == "ignore-file" or (self.first_line <= last_line and finding.line <= self.last_line)
        if self.fault or not covered or (finding.code == UNUSED_CODE and self.kind != "ignore-file"):
            return None
        if not self.codes:
            return ""
        return next((code for code in self.codes if finding.code.startswith(code)), None)


@dataclass(frozen=True, slots=True)
class Layout:
    """A file's logical lines in order: their first and last lines, and the last line of a header after its decorators.

    `open_lines` are lines that cannot end with a comment, because they end inside a string or before a backslash.
    """

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    header_ends: list[int] = field(default_factory=list)
    code_lines: list[int] = field(default_factory=list)
    open_lines: set[int] = field(default_factory=set)

    def around(self, line: int) -> tuple[int, int] | None:
        """Return the first and last line of the logical line that contains `line`."""
        index = bisect_left(self.ends, line)
        if index < len(self.ends) and self.starts[index] <= line:
            return self.starts[index], self.ends[index]
        return None

    def after(self, line: int) -> tuple[int, int]:
        """Return the lines of the first statement after `line`, including the header after any decorators."""
        index = bisect_right(self.starts, line)
        if index < len(self.starts):
            return self.starts[index], self.header_ends[index]
        return line, line

    def covered(self, line: int, *, alone: bool) -> tuple[int, int]:
        """Return the lines that a comment on `line` covers. `alone` is true if there is no code before the comment."""
        statement = self.around(line)
        if alone and statement is None:
            return self.after(line)
        if alone:
            index = bisect_right(self.code_lines, line)
            line = self.code_lines[index] if index < len(self.code_lines) else line
            return line, line
        return statement if statement is not None and statement[1] == line else (line, line)


@dataclass(frozen=True, slots=True)
class Suppressions:
    """All ignore comments in a file, in order."""

    entries: tuple[Suppression, ...] = ()
    layout: Layout = field(default_factory=Layout, repr=False)

    def silencing(self, finding: Finding) -> list[tuple[Suppression, str]]:
        """Return the suppressions that silence a finding, each with the code that silences it."""
        if not self.entries:
            return []
        statement = self.layout.around(finding.line)
        last_line = finding.line if statement is None else min(finding.end_line, statement[1])
        found = [(entry, entry.silencing(finding, last_line)) for entry in self.entries]
        return [(entry, code) for entry, code in found if code is not None]

    def apply(self, findings: Iterable[Finding], used: set[tuple[Suppression, str]]) -> list[Finding]:
        """Return the findings that are not silenced, and add the suppressions that silenced the rest to `used`."""
        kept = []
        for finding in findings:
            silencing = self.silencing(finding)
            used.update(silencing)
            if not silencing:
                kept.append(finding)
        return kept


def read_suppressions(file: SourceFile, *, found: bool = True) -> Suppressions:
    """Return the suppressions in a file, or none if it cannot be tokenized.

    If nothing was `found` in the file, only suppressions with dynalint's codes are returned, because these may be
    unused.
    """
    lowered = file.text.lower()  # This is much faster than a case-insensitive pattern.
    if file.tree is None or not ("dynalint:" in lowered or _may_hold_noqa(lowered, bare=found)):
        return Suppressions()
    tokens = _tokens(file)
    layout = _lay_out(tokens, file)
    entries: list[Suppression] = []
    for token in tokens:
        if token.type == tokenize.COMMENT and any(hint in token.string.lower() for hint in _HINTS):
            line, column = token.start
            alone = not file.line(line)[:column].strip()
            entries.extend(_native(token.string, line, column, layout.covered(line, alone=alone), alone=alone))
            # As in other linters, a noqa on its own line covers only that line, so it covers nothing.
            entries.extend(
                _noqa(token.string, line, column, (line, line) if alone else layout.covered(line, alone=False))
            )
    return Suppressions(tuple(_with_ranges(entries, len(file.lines))), layout)


def _may_hold_noqa(lowered: str, *, bare: bool) -> bool:
    """Return whether a text contains a `noqa` with codes like dynalint's or, if `bare` is true, one without codes."""
    for line in lowered.split("\n") if "noqa" in lowered else ():
        coded = _CODED_NOQA.search(line)
        if (coded is not None and line.rfind("dyn") >= coded.end()) or (bare and _BARE_NOQA.search(line)):
            return True
    return False


def _with_ranges(entries: Iterable[Suppression], last_line: int) -> list[Suppression]:
    """Extend each `disable` to the `enable` with the same codes, or to the end of the file if there is none."""
    found: list[Suppression] = []
    waiting: dict[frozenset[str], list[int]] = {}
    for entry in entries:
        opened = waiting.setdefault(frozenset(entry.codes), [])
        if entry.fault or entry.kind not in ("disable", "enable"):
            found.append(entry)
        elif entry.kind == "disable":
            opened.append(len(found))
            found.append(replace(entry, first_line=entry.line, last_line=last_line))
        elif opened:
            index = opened.pop()
            found[index] = replace(found[index], last_line=entry.line, end=entry)
        else:
            codes = ", ".join(entry.codes)
            found.append(replace(entry, fault=f"`enable[{codes}]` has no matching `disable[{codes}]`"))
    return found


def read_layout(file: SourceFile) -> Layout:
    """Return a file's logical lines."""
    return _lay_out(_tokens(file), file)


def _tokens(file: SourceFile) -> list[tokenize.TokenInfo]:
    """Return a file's tokens, or none if it cannot be tokenized."""
    starts = file.line_starts
    lines = iter([file.text[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)])
    try:
        return list(tokenize.generate_tokens(lambda: next(lines, "")))
    except (tokenize.TokenError, SyntaxError):
        return []


def unused(
    suppressions: Suppressions,
    file: SourceFile,
    shown: str,
    used: Collection[tuple[Suppression, str]],
    ran: Collection[str],
    known: Collection[str],
) -> Iterator[tuple[Finding, Rewrite | None]]:
    """Yield a finding for each comment that has no effect or has unused codes, with the rewrite that removes them.

    `shown` is the path to use in findings. `used` are the suppressions that silenced something. `ran` are the codes of
    the rules that ran on the file, because nothing is known about other rules. `known` are the codes of all rules. A
    `noqa` is left alone because it may be meant for other linters.
    """
    for entry in suppressions.entries:
        if entry.kind == "noqa":
            continue
        codes = () if entry.fault else entry.codes
        idle = [code for code in codes if (entry, code) not in used and _all_ran(code, ran, known)]
        unknown = [code for code in codes if not any(name.startswith(code) for name in known)]
        if not (entry.fault or idle or unknown):
            continue
        finding = Finding(
            path=shown,
            line=entry.line,
            column=entry.column,
            end_line=entry.line,
            end_column=entry.end_column,
            code=UNUSED_CODE,
            name=UNUSED_NAME,
            category="advice",
            severity="warning",
            message=entry.fault or _message(idle, unknown, known),
        )
        yield finding, _removal(entry, [*idle, *unknown], file) if idle or unknown else None


def _all_ran(code: str, ran: Collection[str], known: Collection[str]) -> bool:
    meant = [name for name in known if name.startswith(code)]
    return bool(meant) and all(name in ran for name in meant)


def _message(idle: Sequence[str], unknown: Sequence[str], known: Collection[str]) -> str:
    parts = []
    if idle:
        parts.append(f"Unused suppression: no {_listed(idle)} here")
    parts.extend(f"No rule has the code or prefix `{code}`{nearest(code, sorted(known))}" for code in unknown)
    return "; ".join(parts)


def _listed(codes: Sequence[str]) -> str:
    quoted = [f"`{code}`" for code in codes]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def _removal(entry: Suppression, dead: Collection[str], file: SourceFile) -> Rewrite:
    """Return the rewrite that removes the dead codes from a comment, or the whole comment if no codes remain."""
    alive = [code for code in entry.codes if code not in dead]
    title = "Remove the codes that silence nothing" if alive else "Remove the comment"
    comments = [entry] if entry.end is None else [entry, entry.end]
    return Rewrite(title, "safe", tuple(_without(comment, alive, file) for comment in comments))


def _without(entry: Suppression, alive: Sequence[str], file: SourceFile) -> Replacement:
    """Return the replacement that leaves only the codes in `alive` in a comment."""
    text = file.line(entry.line)
    start, end, content = entry.column - 1, entry.end_column - 1, ""
    if alive:
        start, end, content = entry.codes_column - 1, entry.codes_end - 1, ", ".join(alive)
    elif text[end:].strip():  # Another comment follows.
        end = len(text) - len(text[end:].lstrip())
    else:
        start, end = len(text[:start].rstrip()), len(text)
    first = file.line_starts[entry.line - 1]
    last_line = entry.line == len(file.line_starts)
    whole_line = not content and start == 0 and end == len(text) and not last_line
    stop = file.line_starts[entry.line] if whole_line else first + end
    return Replacement(file, first + start, stop, content)


def _lay_out(tokens: Sequence[tokenize.TokenInfo], file: SourceFile) -> Layout:
    layout = Layout()
    decorators: list[bool] = []
    opened: list[int] = []
    start = 0
    for token in tokens:
        if tokenize.tok_name[token.type].endswith("STRING_START"):  # An f-string starts here, since Python 3.12.
            opened.append(token.start[0])
        first = opened.pop() if tokenize.tok_name[token.type].endswith("STRING_END") else token.start[0]
        layout.open_lines.update(range(first, token.end[0]))
        if token.type == tokenize.NEWLINE:
            layout.ends.append(token.start[0])
            start = 0
        elif token.type not in _NO_CODE:
            if not start:
                start = token.start[0]
                layout.starts.append(start)
                decorators.append(token.string == "@")
            if not layout.code_lines or layout.code_lines[-1] != token.start[0]:
                layout.code_lines.append(token.start[0])
    layout.open_lines.update(number for number, line in enumerate(file.lines, 1) if line.endswith("\\"))
    header_ends = list(layout.ends)
    for index in range(len(header_ends) - 2, -1, -1):
        if decorators[index]:
            header_ends[index] = header_ends[index + 1]
    layout.header_ends.extend(header_ends)
    return layout


def _native(comment: str, line: int, column: int, covered: tuple[int, int], *, alone: bool) -> Iterator[Suppression]:
    for match in _NATIVE.finditer(comment):
        word, listed = match["word"], match["codes"]
        codes = tuple(dict.fromkeys(code.strip() for code in (listed or "").split(",") if code.strip()))
        fault = ""
        if word not in _WORDS:
            fault = f"`dynalint: {word}` silences nothing{nearest(word, _WORDS)}"
        elif not codes:
            fault = f"`dynalint: {word}` names no code; write `{word}[DYN101]` with the codes to silence"
        elif word in ("disable", "enable") and not alone:
            fault = f"`dynalint: {word}` must be on its own line; use `ignore` to silence this line"
        end = match.start() + len(match[0].rstrip())
        yield Suppression(
            word if word in _WORDS else "ignore",  # type: ignore[arg-type]
            codes,
            *covered,
            line=line,
            column=column + match.start() + 1,
            end_column=column + end + 1,
            codes_column=column + match.start("codes") + 1,
            codes_end=column + match.end("codes") + 1,
            reason=match["rest"].strip().removeprefix("--").strip(),
            fault=fault,
        )


def _noqa(comment: str, line: int, column: int, covered: tuple[int, int]) -> Iterator[Suppression]:
    for match in _NOQA.finditer(comment):
        codes = tuple(code.upper() for code in re.split(r"[\s,]+", match["codes"] or "") if code)
        yield Suppression(
            "noqa",
            codes,
            *covered,
            line=line,
            column=column + match.start() + 1,
            end_column=column + match.end() + 1,
        )
