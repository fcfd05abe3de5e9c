"""The format "github-suggestions": suggestions give the new text, and a review is what GitHub's API takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynalint.findings import Edit, Finding, Fix
from dynalint.report import Report, Style, render
from dynalint.report.suggestions import Comment, review, suggestions

Make = Callable[..., Finding]
_LINES = st.lists(st.sampled_from("abcd"), min_size=1, max_size=9)


def committed(old: str, comments: list[Comment]) -> str:
    """Return what committing suggestions makes of a text."""
    lines = old.split("\n")
    for comment in sorted(comments, key=lambda comment: comment.start, reverse=True):
        assert comment.lines is not None
        lines[comment.start - 1 : comment.end] = comment.lines
    return "\n".join(lines)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_LINES, _LINES)
def test_suggestions_give_the_new_text(before: list[str], after: list[str]) -> None:
    old, new = "\n".join(before), "\n".join(after)
    comments = list(suggestions("a.py", old, new, []))
    assert committed(old, comments) == new
    assert all(1 <= comment.start <= comment.end <= len(before) for comment in comments)
    ends = [comment.end for comment in comments]
    assert all(end < comment.start for end, comment in zip(ends, comments[1:], strict=False))


def test_a_suggestion_names_the_fixes_that_change_its_lines(make: Make) -> None:
    test = Fix("Guard the test", "safe", edits=(Edit(1, 1, 1, 2, "A"),))
    other = Fix("Change the end", "safe", edits=(Edit(4, 1, 4, 2, "D"),))
    fixed = [
        make(line=2, end_line=2, code="DYN401", fix=test),
        make(line=4, end_line=4, code="DYN403", fix=other),
        make(line=6, end_line=6, code="DYN101", fix=None, message="gone as well"),
    ]
    comments = list(suggestions("a.py", "a\nb\nc\nd\ne\nf\n", "A\nb\nc\nD\ne\nF\n", fixed))
    assert [(comment.start, comment.text) for comment in comments] == [
        (1, "DYN401: Guard the test."),
        (4, "DYN403: Change the end."),
        (6, "DYN101: gone as well."),
    ]


def test_line_endings_are_not_suggested() -> None:
    assert list(suggestions("a.py", "a\r\nb\r\n", "a\r\nc\r\n", [])) == [Comment("a.py", 2, 2, "", ("c",))]


@pytest.mark.parametrize(
    ("lines", "body"),
    [
        (("x = 1",), "why\n\n```suggestion\nx = 1\n```"),
        ((), "why\n\n```suggestion\n```"),
        (("'''```'''",), "why\n\n````suggestion\n'''```'''\n````"),
    ],
)
def test_a_suggestion_is_fenced(lines: tuple[str, ...], body: str) -> None:
    assert Comment("a.py", 3, 3, "why", lines).to_json() == {"path": "a.py", "line": 3, "side": "RIGHT", "body": body}


def test_several_lines() -> None:
    comment = Comment("a.py", 3, 5, "why").to_json()
    assert (comment["start_line"], comment["start_side"], comment["line"]) == (3, "RIGHT", 5)


def test_findings_are_comments(make: Make) -> None:
    answer: dict[str, Any] = json.loads(render("github-suggestions", Report([make()], folder="sub"), Style()))
    assert answer["event"] == "COMMENT"
    (comment,) = answer["comments"]
    assert comment["path"].startswith("sub/")
    assert "suggestion" not in comment["body"]


def test_only_suggestions_are_called_a_batch() -> None:
    def body(*lines: tuple[str, ...] | None) -> str:
        return str(json.loads(review(Comment("a.py", 3, 3, "why", given) for given in lines))["body"])

    assert "one batch" in body(("x = 1",), ("y = 2",))
    assert "batch" not in body(("x = 1",), None)
    assert "batch" not in body(None, None)


def test_nothing_to_say() -> None:
    assert json.loads(review([]))["comments"] == []
