"""Write ignore comments for existing findings, for projects that adopt dynalint."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.adoption.ignore_comments import UNUSED_CODE, Layout, read_layout, read_suppressions
from dynalint.analysis.source import SourceFile, parse_text
from dynalint.errors import DynalintError
from dynalint.findings import Finding

# Findings about a whole file or about a comment cannot be silenced by a comment.
NOT_SILENCED = frozenset({"DYN901", UNUSED_CODE})


def silence(file: SourceFile, findings: Iterable[Finding], reason: str) -> str:
    """Return the text of a file with ignore comments for `findings` added at the ends of lines.

    Raises:
        DynalintError: If a comment would change what the code means, or cannot be written in the file's encoding.
    """
    layout = read_layout(file)
    wanted: dict[int, set[str]] = {}
    for finding in findings:
        wanted.setdefault(_line(layout, finding), set()).add(finding.code)
    present = {
        entry.line: entry for entry in read_suppressions(file).entries if entry.kind == "ignore" and not entry.fault
    }
    text = file.text
    for line in sorted(wanted, reverse=True):
        start, codes = file.line_starts[line - 1], sorted(wanted[line])
        entry = present.get(line)
        if entry is not None and file.line(line)[: entry.column - 1].strip():
            place = start + entry.codes_end - 1
            text = f"{text[:place]}, {', '.join(codes)}{text[place:]}"
        else:
            place = start + len(file.line(line).rstrip())
            suffix = f" -- {reason}" if reason else ""
            text = f"{text[:place]}  # dynalint: ignore[{', '.join(codes)}]{suffix}{text[place:]}"
    _check(file, text)
    return text


def _line(layout: Layout, finding: Finding) -> int:
    """Return the line that can end with the comment for a finding: its own line, or the last line of its statement."""
    if finding.line not in layout.open_lines:
        return finding.line
    statement = layout.around(finding.line)
    return finding.line if statement is None else statement[1]


def _check(file: SourceFile, text: str) -> None:
    try:
        text.encode(file.encoding)
    except UnicodeEncodeError as fault:
        raise DynalintError(f"the reason cannot be written in the file's encoding, {file.encoding}") from fault
    tree = parse_text(file.path, text).tree
    if file.tree is None or tree is None or ast.dump(tree) != ast.dump(file.tree):
        raise DynalintError("a comment there would change the meaning of the code")
