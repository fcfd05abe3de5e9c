"""The format "github-suggestions": a pull request review in the form that GitHub's API accepts.

Post it with `gh api repos/OWNER/NAME/pulls/NUMBER/reviews --input FILE`. `dynalint fix` suggests what it would write;
other commands comment on the lines of their findings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dynalint.diffs import differences
from dynalint.findings import Edit, Finding
from dynalint.fingerprints import repository_path
from dynalint.report.json import document
from dynalint.report.markdown import fence, prose
from dynalint.report.model import Report
from dynalint.report.style import Style


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a range of lines, 1-based and inclusive; `lines` are the suggested replacement."""

    path: str
    start: int
    end: int
    text: str
    lines: tuple[str, ...] | None = None

    def to_json(self) -> dict[str, object]:
        """Return the comment with the keys of GitHub's API."""
        body = self.text
        if self.lines is not None:
            body = f"{body}\n\n{fence(self.lines, 'suggestion')}"
        place: dict[str, object] = {"path": self.path, "line": self.end, "side": "RIGHT"}
        if self.start < self.end:
            place |= {"start_line": self.start, "start_side": "RIGHT"}
        return {**place, "body": body}


def render(report: Report, style: Style) -> str:
    """Return a review with a comment on each finding, except those in notebooks, which have no lines to comment on."""
    placed = (finding for finding in report.findings if finding.cell is None)
    return review(
        Comment(
            repository_path(finding.path, report.folder),
            finding.line,
            finding.end_line,
            "\n\n".join(filter(None, [f"{finding.code}: {prose(finding.message)}", prose(finding.help)])),
        )
        for finding in placed
    )


def review(comments: Iterable[Comment]) -> str:
    """Return a review with the given comments."""
    given = list(comments)
    several = sum(comment.lines is not None for comment in given) > 1
    body = "dynalint: suggestions for one file belong together; commit them as one batch." if several else "dynalint"
    return document({"event": "COMMENT", "body": body, "comments": [comment.to_json() for comment in given]})


def suggestions(path: str, old: str, new: str, fixed: Iterable[Finding]) -> Iterator[Comment]:
    """Yield a comment for each difference between two texts of a file; `fixed` are the findings that are removed."""
    before, after = _lines(old), _lines(new)
    found = list(fixed)
    for start, end, new_start, new_end in _hunks(before, after):
        # An insertion is shown with the adjacent line.
        here = _changing(found, start + 1, end) or _changing(found, start, end + 1)
        said = [(one.code, one.fix.title if one.fix else one.message) for one in here or found]
        titles = dict.fromkeys(f"{code}: {prose(text)}." for code, text in said)
        yield Comment(path, start + 1, end, "\n".join(titles), tuple(after[new_start:new_end]))


def _changing(found: Iterable[Finding], first: int, last: int) -> list[Finding]:
    """Return the findings whose fixes change any of these lines, or that stand on them if they have no fix."""
    return [
        finding
        for finding in found
        if any(place.line <= last and place.end_line >= first for place in _places(finding))
    ]


def _places(finding: Finding) -> Sequence[Finding | Edit]:
    edits = finding.fix.edits if finding.fix is not None else ()
    return [edit for edit in edits if edit.path is None] or [finding]


def _hunks(before: list[str], after: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the ranges that differ. A suggestion must replace lines, so an insertion includes an adjacent one."""
    hunks: list[list[int]] = []
    for start, end, new_start, new_end in differences(before, after):
        if start == end:
            place = [start - 1, end, new_start - 1, new_end] if start else [start, end + 1, new_start, new_end + 1]
        else:
            place = [start, end, new_start, new_end]
        if hunks and place[0] < hunks[-1][1]:
            hunks[-1][1], hunks[-1][3] = place[1], place[3]
        else:
            hunks.append(place)
    for start, end, new_start, new_end in hunks:
        if start < len(before):
            yield start, end, new_start, new_end


def _lines(text: str) -> list[str]:
    return re.sub(r"\r\n?", "\n", text).removesuffix("\n").split("\n")
