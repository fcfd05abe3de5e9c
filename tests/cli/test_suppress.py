"""Comments that silence findings, and those that silence nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dynalint.adoption.ignore_comments import Suppression, read_suppressions, unused
from dynalint.analysis.source import SourceFile, parse_source
from dynalint.findings import Finding
from dynalint.fix.edits import plan_of, replaced

KNOWN = ("DYN001", "DYN101", "DYN102", "DYN201", "DYN401", "DYN902")
RAN = ("DYN101", "DYN102", "DYN201", "DYN401", "DYN902")


def source(text: str) -> SourceFile:
    return parse_source(Path("m.py"), text.encode())


def finding(code: str, line: int, end_line: int | None = None) -> Finding:
    return Finding("m.py", line, 1, end_line or line, 2, code, "name", "graph-break", "error", "message")


def silenced(text: str, code: str, line: int, end_line: int | None = None) -> bool:
    suppressions = read_suppressions(source(text))
    return not suppressions.apply([finding(code, line, end_line)], set())


def dead(text: str, *findings: Finding, ran: tuple[str, ...] = RAN) -> list[tuple[int, str, str | None]]:
    """Line, message and text after the fix for each comment that silences nothing."""
    file = source(text)
    suppressions = read_suppressions(file)
    used: set[tuple[Suppression, str]] = set()
    suppressions.apply(findings, used)
    return [
        (one.line, one.message, replaced(text, plan_of(rewrite)[file.path]) if rewrite else None)
        for one, rewrite in unused(suppressions, file, "m.py", used, ran, KNOWN)
    ]


@pytest.mark.parametrize(
    ("comment", "codes"),
    [
        ("# dynalint: ignore[DYN101]", {"DYN101"}),
        ("# dynalint:ignore[DYN1]", {"DYN101", "DYN102"}),
        ("#dynalint: ignore [ DYN101 ,DYN2 ] -- why, see #12", {"DYN101", "DYN201"}),
        ("# type: ignore[misc]  # dynalint: ignore[DYN101]  # noqa: E501", {"DYN101"}),
        ("# dynalint: ignore[DYN101] # dynalint: ignore[DYN201]", {"DYN101", "DYN201"}),
        ("# noqa", set(RAN)),
        ("# NoQA  because", set(RAN)),
        ("# noqa: DYN101,E501 DYN2", {"DYN101", "DYN201"}),
        ("# noqa : dyn101", {"DYN101"}),
        ("# noqa E501", set(RAN)),
        ("# noqa: because", set()),
        ("# noqable", set()),
        ("# flake8: noqa", set()),
        ("# dynalint: ignore", set()),
        ("# dynalint: ignore[]", set()),
        ("# dynalint: Ignore[DYN101]", set()),
        ("# dynalint ignore[DYN101]", set()),
        ("'# dynalint: ignore[DYN101] # noqa'", set()),
    ],
)
def test_what_a_comment_silences(comment: str, codes: set[str]) -> None:
    text = f"x = 1  {comment}\n" if comment.startswith("#") else f"x = {comment}\n"
    assert {code for code in RAN if silenced(text, code, 1)} == codes - {"DYN902"}


TEXT = """\
x = call(
    # dynalint: ignore[DYN101]
    a,
    b,  # dynalint: ignore[DYN102]
    c,
)  # dynalint: ignore[DYN201]
# dynalint: ignore[DYN101] -- covers the next statement, whatever stands between

# a remark
@decorated(
    1
)
@again
def f(
    y,
):
    if y:  # dynalint: ignore[DYN201]
        return 1
    # dynalint: ignore[DYN102]
    elif y > 1:
        return 2
    s = '''
# dynalint: ignore[DYN101]
'''  # dynalint: ignore[DYN401]
    # noqa
    z = 1; t = \\
        2  # noqa
    return 3
"""


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("DYN101", {3, *range(10, 17)}),
        ("DYN102", {4, 20}),
        ("DYN201", {*range(1, 7), 17}),
        ("DYN401", {22, 23, 24}),
    ],
)
def test_which_lines_a_comment_covers(code: str, lines: set[int]) -> None:
    blanket = {25, 26, 27}  # on line 25 there is no code, only the comment itself
    assert {line for line in range(1, 29) if silenced(TEXT, code, line)} == lines | blanket


def test_a_finding_over_several_lines() -> None:
    assert silenced(TEXT, "DYN102", 1, 6)  # one of its lines carries the comment
    assert not silenced(TEXT, "DYN102", 17, 20)  # a comment inside the body is none of the header's
    assert silenced("f(a,\n  b)  # dynalint: ignore[DYN101]", "DYN101", 1, 2)


def test_a_whole_file() -> None:
    text = "x = 1\n\n# dynalint: ignore-file[DYN1] -- legacy\n"
    assert silenced(text, "DYN101", 1)
    assert not silenced(text, "DYN401", 1)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_endings(newline: str) -> None:
    text = newline.join(
        ["a = 1", "b = 2  # dynalint: ignore[DYN101]", "\x0c", "# dynalint: ignore[DYN101]", "c = '\u2028'"]
    )
    assert [line for line in range(1, 6) if silenced(text, "DYN101", line)] == [2, 5]


def test_a_file_without_tokens_has_no_comments() -> None:
    assert read_suppressions(source("# dynalint: ignore[DYN1]\n(")).entries == ()


def test_unused_codes_are_told_and_removed() -> None:
    assert dead("x = 1  # dynalint: ignore[DYN101]\n", finding("DYN101", 1)) == []
    assert dead("x = 1  # dynalint: ignore[DYN101]\n") == [(1, "Unused suppression: no `DYN101` here", "x = 1\n")]
    assert dead("x = 1  # dynalint: ignore[DYN101, DYN2,DYN4] -- y\n", finding("DYN201", 1)) == [
        (1, "Unused suppression: no `DYN101` or `DYN4` here", "x = 1  # dynalint: ignore[DYN2] -- y\n")
    ]


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("a\n  # dynalint: ignore[DYN101] -- reason\nb", "a\nb"),
        ("a\n# dynalint: ignore[DYN101]", "a\n"),
        ("a\r\n# dynalint: ignore[DYN101]\r\nb\r\n", "a\r\nb\r\n"),
        ("a  # why not # dynalint: ignore[DYN101]\n", "a  # why not\n"),
        ("a  # dynalint: ignore[DYN101] -- r  # noqa: E501\n", "a  # noqa: E501\n"),
        ("# dynalint: ignore[DYN101]  # type: ignore\na\n", "# type: ignore\na\n"),
    ],
)
def test_the_fix_leaves_everything_else(text: str, fixed: str) -> None:
    assert [one[2] for one in dead(text)] == [fixed]


def test_only_rules_that_ran_are_judged() -> None:
    assert dead("x  # dynalint: ignore[DYN101]\n", ran=("DYN102",)) == []
    assert dead("x  # dynalint: ignore[DYN1]\n", ran=("DYN101",)) == []  # DYN102 might be there
    assert dead("x  # dynalint: ignore[DYN001]\n") == []
    assert dead("x  # dynalint: ignore[DYN]\n") == []


def test_codes_that_do_not_exist_and_words_that_mean_nothing() -> None:
    messages = [
        one[1:] for one in dead("x  # dynalint: ignore[DNY101]\ny  # dynalint: ignor[DYN1]\nz  # dynalint: ignore\n")
    ]
    assert messages == [
        (
            "No rule has the code or prefix `DNY101` (did you mean `DYN101`?)",
            "x\ny  # dynalint: ignor[DYN1]\nz  # dynalint: ignore\n",
        ),
        ("`dynalint: ignor` silences nothing (did you mean `ignore`?)", None),
        ("`dynalint: ignore` names no code; write `ignore[DYN101]` with the codes to silence", None),
    ]


def test_noqa_is_never_called_unused() -> None:
    assert dead("x  # noqa: DYN101\ny  # noqa\n") == []


def test_from_end_to_end(check: Callable[..., Any], dynalint: Callable[..., Any], model: Path) -> None:
    text = model.read_text().replace("> 0:", "> 0:  # dynalint: ignore[DYN101, DYN401]")
    model.write_text(text)
    ran = check()
    assert ran.places == ["model.py:7 DYN902", "model.py:9 DYN401"]
    assert (ran.json[0]["category"], ran.json[0]["fix"]["safety"]) == ("advice", "safe")
    assert check("--select", "DYN4").places == ["model.py:9 DYN401"]
    assert check("--ignore", "DYN401").places == []  # it did not run, so nobody knows
    assert check("--per-file-ignores", "*.py:DYN902").places == ["model.py:9 DYN401"]
    model.write_text(f"{text}# dynalint: ignore-file[DYN902, DYN4]\n")
    assert check().places == []
    model.write_text(text)
    assert dynalint("fix", "--static", "--apply", "--select", "ALL", "--unfixable", "DYN4").code == 1
    assert "ignore[DYN101]\n" in model.read_text()


RANGE = """\
one
# dynalint: disable[DYN101, DYN4] -- why
two
# dynalint: disable[DYN2]
three
# dynalint: enable[DYN4, DYN101]
four
"""


def test_a_range_covers_what_stands_between() -> None:
    covered = {
        code: [line for line in range(1, 8) if silenced(RANGE, code, line)] for code in ("DYN101", "DYN401", "DYN201")
    }
    assert covered == {"DYN101": [2, 3, 4, 5, 6], "DYN401": [2, 3, 4, 5, 6], "DYN201": [4, 5, 6, 7]}


def test_an_unused_range_loses_both_comments() -> None:
    text = "# dynalint: disable[DYN101, DYN201]\nx\n# dynalint: enable[DYN101, DYN201]  # noqa: E501\ny\n"
    assert dead(text, finding("DYN101", 2), finding("DYN201", 2)) == []
    assert dead(text, finding("DYN101", 2)) == [
        (
            1,
            "Unused suppression: no `DYN201` here",
            "# dynalint: disable[DYN101]\nx\n# dynalint: enable[DYN101]  # noqa: E501\ny\n",
        )
    ]
    assert [one[2] for one in dead(text)] == ["x\n# noqa: E501\ny\n"]


def test_ranges_inside_ranges() -> None:
    text = "# dynalint: disable[DYN101]\na\n# dynalint: disable[DYN101]\nb\n# dynalint: enable[DYN101]\nc\n"
    assert [line for line in range(1, 7) if silenced(text, "DYN101", line)] == [1, 2, 3, 4, 5, 6]
    assert not silenced(text.replace("c\n", "# dynalint: enable[DYN101]\nc\n"), "DYN101", 7)


def test_what_is_no_range() -> None:
    assert dead("x\n# dynalint: enable[DYN101]\n") == [(2, "`enable[DYN101]` has no matching `disable[DYN101]`", None)]
    assert dead("x  # dynalint: disable[DYN101]\n", finding("DYN101", 1)) == [
        (1, "`dynalint: disable` must be on its own line; use `ignore` to silence this line", None)
    ]
    assert not silenced("x  # dynalint: disable[DYN101]\ny\n", "DYN101", 2)
