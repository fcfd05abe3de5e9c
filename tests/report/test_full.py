"""The formats for people: full, concise, statistics, and the summary below them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dynalint.findings import Evidence, Finding, Fix
from dynalint.report import FORMATS, Report, Style, render, render_statistics
from dynalint.report.excerpt import excerpt
from dynalint.report.style import cells, visible, width

PLAIN = Style()

FULL = """\
DYN101 branch-on-tensor [*]: Branch on a tensor
 --> model.py:3:12
  |
1 | class Model(nn.Module):
2 |     def helper(self, x):
3 |         if x.sum() > 0:
  |            ^^^^^^^
4 |             return x
5 |         print(x)
  |
  = reached from Model.forward → Encoder.forward → Model.helper
  = confirmed by torch 2.13.0: GB0170 Detected data-dependent branching.
  = help: Use `torch.where`.
  = fix: Use `torch.where`, if both are of one shape and one dtype (verified)

DYN401 print-call [*]: A call of `print`
 --> model.py:5:9
  |
3 |         if x.sum() > 0:
4 |             return x
5 |         print(x)
  |         ^^^^^^^^
6 |         return -x
  |
  = in Model.forward
  = fix: Guard the call

DYN501 counter: `self.n` changes with every call
 --> model.py:5:9
  |
3 |         if x.sum() > 0:
4 |             return x
5 |         print(x)
  |         ^^^^^^^^
6 |         return -x
  |
  = confirmed by torch 2.13.0: guard failed: self.n == 0
  = unsafe fix: Keep it in a buffer: readers get a tensor

DYN901 odd: Odd
 --> model.py:5:9
  |
3 |         if x.sum() > 0:
4 |             return x
5 |         print(x)
  |         ^^^^^^^^
6 |         return -x
  |
  = not confirmed: Model was not run: no inputs.
  = no fix: it needs a person

Found 4 findings (2 confirmed, 1 refuted and hidden; 2 fixable with `dynalint fix --apply`, 1 more with `--unsafe-fixes`).
"""


def test_full(rich: list[Finding], lines: Any) -> None:
    report = Report(rich, lines, refuted=1)
    assert render("full", report, PLAIN) == FULL


def test_colour_changes_nothing_but_colour(rich: list[Finding], lines: Any) -> None:
    report = Report(rich, lines, refuted=1)
    for form in ("full", "concise"):
        coloured = render(form, report, Style(color=True))
        assert "\x1b[" in coloured
        assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == render(form, report, PLAIN)
    assert "\x1b[" not in render("github", report, Style(color=True))
    assert "\x1b[" not in render("json", report, Style(color=True))


def test_concise(rich: list[Finding], lines: Any) -> None:
    assert render("concise", Report(rich, lines, unsafe_fixes=True), PLAIN).splitlines() == [
        "model.py:3:12: DYN101 [*] Branch on a tensor",
        "model.py:5:9: DYN401 [*] A call of `print`",
        "model.py:5:9: DYN501 [*] `self.n` changes with every call",
        "model.py:5:9: DYN901 Odd",
        "Found 4 findings (2 confirmed; 3 fixable with `dynalint fix --apply`).",
    ]


def test_summary(make: Callable[..., Finding]) -> None:
    def last(report: Report) -> str:
        return render("concise", report, PLAIN).splitlines()[-1]

    assert last(Report([])) == "All checks passed!"
    assert last(Report([], refuted=2)) == "All checks passed! (2 refuted and hidden)"
    assert last(Report([make()])) == "Found 1 finding."
    assert last(Report([make()], folded=12)) == "12 more in code that is rarely compiled; to see them, pass `--all`."
    assert last(Report([], folded=1)) == "1 finding in code that is rarely compiled; to see it, pass `--all`."
    assert render("concise", Report([], quiet=True), PLAIN) == ""


def test_summary_counts_what_a_setting_lets_pass(make: Callable[..., Finding]) -> None:
    shapes = {"setting": "capture_dynamic_output_shape_ops"}
    found = [
        make(code="DYN301", **shapes),
        make(5, code="DYN303", **shapes),
        make(7, code="DYN601", setting="allow_rnn"),
        make(9),
    ]
    shown = render("concise", Report(found), PLAIN)
    line = "With `torch._dynamo.config.{} = True`, Dynamo traces {} of them unchanged ({}).\n"
    assert shown.endswith(
        line.format("capture_dynamic_output_shape_ops", 2, "DYN301, DYN303") + line.format("allow_rnn", 1, "DYN601")
    )


def test_summary_counts_what_fullgraph_was_seen_to_let_pass(make: Callable[..., Finding]) -> None:
    passes = Evidence("confirmed", "It breaks.", "GB0124", "2.13.0", "passes", 0)
    breaks = replace(passes, fullgraph="breaks")
    found = [make(code="DYN201", evidence=passes), make(5, evidence=breaks), make(7, evidence=Evidence("static"))]
    line = "With `torch.compile(..., fullgraph=True)`, Dynamo traced 1 of them unchanged (DYN201).\n"
    assert render("concise", Report(found), PLAIN).endswith(line)


def test_statistics(rich: list[Finding]) -> None:
    assert render_statistics("full", Report([*rich, rich[1]]), PLAIN).splitlines() == [
        "found confirmed fixable unlikely code   name",
        "    2         0       2        0 DYN401 print-call",
        "    1         1       1        0 DYN101 branch-on-tensor",
        "    1         1       0        0 DYN501 counter",
        "    1         0       0        0 DYN901 odd",
        "",
        "found confirmed fixable unlikely gb",
        "    1         1       1        0 GB0170",
    ]
    assert render_statistics("full", Report([]), PLAIN) == ""
    assert json.loads(render_statistics("json", Report([]), PLAIN)) == {"rules": [], "graph_breaks": []}


def test_statistics_count_breaks_by_the_id_that_was_seen(make: Callable[..., Finding]) -> None:
    either = ("GB0001", "GB0002")
    findings = [make(gb=either), make(gb=either, evidence=Evidence("confirmed", gb="GB0002"))]
    assert json.loads(render_statistics("json", Report(findings), PLAIN))["graph_breaks"] == [
        {"found": 1, "confirmed": 1, "fixable": 0, "unlikely": 0, "gb": "GB0002"}
    ]


def test_why_code_is_rarely_compiled(make: Callable[..., Finding]) -> None:
    text = render("full", Report([make(doubt="`train` steps an optimizer")]), PLAIN)
    assert "= rarely compiled: `train` steps an optimizer\n" in text


def test_other_verdicts(make: Callable[..., Finding]) -> None:
    def said(evidence: Evidence) -> str:
        return render("full", Report([make(evidence=evidence)]), PLAIN).splitlines()[2].strip()

    assert (
        said(Evidence("refuted", "it was traced whole.", None, "2.13.0"))
        == "= refuted by torch 2.13.0: it was traced whole."
    )
    assert said(Evidence("unreached", "the example never came here.")) == "= not reached: the example never came here."
    assert said(Evidence("confirmed", "Unsupported call.", "GB0001")) == "= confirmed: GB0001 Unsupported call."
    assert said(Evidence("confirmed")) == "= confirmed"


def test_what_was_repaired_along_with_others_has_a_fix(make: Callable[..., Finding]) -> None:
    text = render("full", Report([make(fix=Fix("Fix it together with other findings", "safe"))]), PLAIN)
    assert "= fix: Fix it together with other findings\n" in text


def test_what_kept_everything_from_being_confirmed_is_said_once(make: Callable[..., Finding]) -> None:
    obstacle = Evidence("unconfirmed", "torch is not installed.")
    text = render("full", Report([make(evidence=obstacle), make(4, evidence=obstacle), make(5)]), PLAIN)
    assert text.endswith("\nNo findings were confirmed: torch is not installed.\nFound 3 findings.\n")
    assert text.count("torch is not installed") == 1
    other = Evidence("unconfirmed", "it hangs.")
    assert "= not confirmed: it hangs.\n" in render(
        "full", Report([make(evidence=obstacle), make(evidence=other)]), PLAIN
    )


def test_long_notes_are_wrapped(make: Callable[..., Finding]) -> None:
    text = render("full", Report([make(help="Do this and that. " * 20)]), PLAIN)
    notes = text.splitlines()[2:-2]
    assert notes[0].startswith("  = help: Do this")
    assert all(line.startswith("    ") and len(line) <= 120 for line in notes[1:])
    assert " ".join(line.strip() for line in notes) == "= help: " + ("Do this and that. " * 20).strip()


def test_a_long_chain_is_cut_in_the_middle(make: Callable[..., Finding]) -> None:
    chain = tuple(f"f{number}" for number in range(10))
    assert "reached from f0 → f1 → f2 → (4 more) → f7 → f8 → f9\n" in render(
        "full", Report([make(region=chain)]), PLAIN
    )


def marked(line: str, column: int, end_column: int, make: Callable[..., Finding]) -> tuple[str, str]:
    """The code and the carets of a line, as shown."""
    _, shown = excerpt(make(1, column, end_column), [line], PLAIN)
    return shown[1].partition("| ")[2], shown[2].partition("| ")[2]


def test_carets_stand_under_what_they_mark(make: Callable[..., Finding]) -> None:
    assert marked("\tif\tx:", 5, 6, make) == ("    if  x:", "        ^")
    assert marked("s = '日本' + x", 12, 13, make) == ("s = '日本' + x", "             ^")
    assert marked("日本 = x", 1, 3, make) == ("日本 = x", "^^^^")
    assert marked("e\N{COMBINING ACUTE ACCENT} = x", 6, 7, make) == ("e\N{COMBINING ACUTE ACCENT} = x", "    ^")
    assert marked("x = 1", 6, 7, make) == ("x = 1", "     ^")  # past the end, as syntax errors are
    assert marked("x = 1", 3, 3, make) == ("x = 1", "  ^")


def test_a_long_line_is_cut_around_the_carets(make: Callable[..., Finding]) -> None:
    line = "x = [" + "1234567, " * 40 + "HERE" + ", 1234567" * 40 + "]"
    column = line.index("HERE") + 1
    code, carets = marked(line, column, column + 4, make)
    assert len(code) == 120
    assert code.startswith("…")
    assert code.endswith("…")
    assert code[len(carets) - 4 : len(carets)] == "HERE"
    code, carets = marked(line, 1, 2, make)
    assert (len(code), code[:5], code[-1], carets) == (120, "x = [", "…", "^")
    code, carets = marked(line, 5, len(line) + 1, make)
    assert len(carets) <= 120
    assert code.startswith("x = [")
    short = "x" * 120
    assert marked(short, 1, 121, make) == (short, "^" * 120)


def test_a_finding_over_several_lines(make: Callable[..., Finding]) -> None:
    lines = ["f(", "    a,", "", "    b)", "g"]
    _, shown = excerpt(make(1, 2, 7, end_line=4), lines, PLAIN)
    assert shown == [
        "  |",
        "1 | f(",
        "  |  ^",
        "2 |     a,",
        "  |     ^^",
        "3 |",
        "4 |     b)",
        "  |     ^^",
        "5 | g",
        "  |",
    ]
    many = ["f(", *["    a,"] * 20, ")"]
    _, shown = excerpt(make(1, 1, 2, end_line=22), many, PLAIN)
    assert len(shown) < 20
    assert "..." in shown
    assert shown[-3:] == ["22 | )", "   | ^", "   |"]


def test_a_finding_in_an_empty_or_shorter_file(make: Callable[..., Finding]) -> None:
    assert excerpt(make(1, 1, 2), [""], PLAIN) == (1, [])
    assert excerpt(make(9, 1, 2), ["x"], PLAIN) == (1, [])
    assert render("full", Report([make(1, 1, 2)]), PLAIN).splitlines()[1] == " --> model.py:1:1"


def test_what_acts_on_a_terminal_is_shown_instead(make: Callable[..., Finding]) -> None:
    nasty = "a\x1b[31mred\r\n\x07\u202eright\u2028\udcff\x9b"
    assert visible(nasty) == "a␛[31mred␍␊␇�right���"
    assert width(visible("日本x")) == 5
    assert cells("\tx") == ["    ", "x"]
    text = render("full", Report([make(path=f"{nasty}.py", message=nasty)], {f"{nasty}.py": ["x", "y", nasty]}), PLAIN)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\udc80-\udcff]", text)


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_a_function_of_the_findings(rich: list[Finding], lines: Any, form: str) -> None:
    report = Report(rich, lines)
    assert render(form, report, PLAIN) == render(form, report, PLAIN)
    assert render(form, report, PLAIN).endswith("\n")
