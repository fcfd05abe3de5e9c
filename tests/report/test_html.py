"""The format "html": what the page holds by reading it, and what a browser makes of it."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dynalint.adoption.baseline import BaselineComparison
from dynalint.adoption.fingerprints import Identity
from dynalint.cli import run
from dynalint.findings import Cost, Edit, Evidence, Finding, Fix
from dynalint.report import Report, Style, render
from dynalint.report.offered_diffs import offered_diff
from dynalint.rulebook.catalogue import catalogue
from tests.browser import Reader, browse

Make = Callable[..., Finding]

HOSTILE = '"</style></script><img src=x onerror=alert(1)>`<a href=javascript:alert(1)>&lt;b&gt;'


def page(report: Report) -> str:
    return render("html", report, Style())


def plain(text: str) -> str:
    """The text of a page, without tags."""
    return html.unescape(re.sub(r"<[^>]+>", "", re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)))


@pytest.fixture
def report(make: Make, rich: list[Finding], lines: Any) -> Report:
    """A report with every section, and more findings than fit on a screen."""
    loop = Cost("Model.forward", "Model.forward", reads=True)
    many = [
        make(3, path=f"part{number}.py", cost=loop, setting="capture_scalar_outputs", url="https://docs.test/DYN101.md")
        for number in range(12)
    ]
    texts = {**lines, **{one.path: (*lines["model.py"], "x = " + "wide + " * 60) for one in many}}
    entry = Identity("old.py", "DYN402", "f", "log(x)")
    compared = BaselineComparison((*rich, *many), (make(90),), (entry,))
    return Report(
        [*rich, *many],
        texts,
        refuted=2,
        folded=3,
        with_fixes=True,
        compared=compared,
        ran_by="python",
        entries=catalogue(),
    )


@pytest.fixture
def hostile(make: Make) -> Report:
    """A report with text from the checked code wherever there can be any."""
    edit = Edit(1, 1, 1, 2, f"\n{HOSTILE}\n::error::x\n", path=None)
    fix = Fix(f"Do {HOSTILE}", "unsafe", (HOSTILE,), (edit, replace(edit, path=f"other{HOSTILE}.py")))
    one = make(
        1,
        1,
        2,
        path=f"{HOSTILE}.py",
        code=f"X{HOSTILE}",
        name=HOSTILE,
        message=HOSTILE,
        help=HOSTILE,
        url=f"javascript:{HOSTILE}",
        function=HOSTILE,
        region=(HOSTILE, HOSTILE),
        evidence=Evidence("confirmed", HOSTILE, HOSTILE, HOSTILE, "passes", 0),
        fix=fix,
        setting=HOSTILE,
        cost=Cost(HOSTILE, HOSTILE),
    )
    gone = Identity(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    return Report(
        [one, replace(one, doubt=HOSTILE)],
        {one.path: (HOSTILE, "::error::y")},
        failures=(HOSTILE,),
        ran_by=HOSTILE,
        compared=BaselineComparison((one,), (one,), (gone,)),
    )


def test_the_page_loads_and_runs_nothing(report: Report) -> None:
    text = page(report)
    reader = Reader(text)
    assert all(value.startswith(("#", "https://docs.test/")) for value in reader.values("href"))
    assert reader.values("src") == []
    assert "url(" not in text
    assert "@import" not in text
    assert not {tag for tag, _ in reader.tags} & {"script", "link", "img", "iframe", "object"}
    policy = next(dict(attributes) for tag, attributes in reader.tags if "http-equiv" in attributes)["content"]
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "script-src" not in policy


def test_every_link_leads_somewhere_and_no_id_is_there_twice(report: Report) -> None:
    reader = Reader(page(report))
    ids = reader.values("id")
    assert len(ids) == len(set(ids))
    inner = {value.removeprefix("#") for value in reader.values("href") if value.startswith("#")}
    assert inner <= set(ids)
    assert {f"finding-{number}" for number in range(1, 17)} <= inner
    labels = reader.values("aria-labelledby")
    assert labels == ["cost", "settings", "diffs", "verdicts", "baseline", "files"]
    assert set(labels) <= set(ids)


def test_text_of_the_user_stays_text(hostile: Report) -> None:
    text = page(hostile)
    tags = {tag for tag, _ in Reader(text).tags}
    assert not tags & {"img", "script", "b"}
    assert all(not value.startswith("javascript") for value in Reader(text).values("href"))
    assert HOSTILE not in text
    assert html.escape(HOSTILE) in text
    assert not re.search(r"^\s*::error::", text, re.MULTILINE)


def test_findings_are_listed_by_cost_and_by_file(report: Report) -> None:
    text = page(report)
    assert "<h1>16 findings in 13 files</h1>" in text
    shown = re.findall(r"<summary>([^<]+): (\d+) findings?</summary>", text)
    assert shown == [
        ("Tensors read in a loop", "12"),
        ("Recompilations on every call", "1"),
        ("Other graph breaks and recompilations", "2"),
        ("Notes and advice", "1"),
    ]
    first = text[text.index("Tensors read in a loop") :]
    assert first.index("part0.py") < first.index("part1.py")
    assert re.findall(r'<h3 class="file mono" id="file-\d+">([^<]+)', text)[:2] == ["model.py", "part0.py"]
    assert "1 | class Model" in text
    assert "3 |         if x.sum() &gt; 0:" in text
    assert "reached from" in text


def test_settings_are_told_with_what_was_seen(report: Report, make: Make) -> None:
    told = plain(page(report))
    sentence = "With torch._dynamo.config.capture_scalar_outputs = True, Dynamo traces 12 of 16 unchanged (DYN101)."
    assert sentence in " ".join(told.split())
    assert "seen to break" not in told
    seen = make(setting="allow_rnn", evidence=Evidence("confirmed", "It breaks.", "GB0014", "2.13.0", "breaks", 0))
    assert "1 of them broke the graph without it" in plain(page(Report([seen, make(5, setting="allow_rnn")])))
    whole = make(evidence=Evidence("confirmed", "It breaks.", "GB0124", "2.13.0", "passes", 0))
    told = " ".join(plain(page(Report([whole]))).split())
    assert "fullgraph=True), Dynamo traced 1 of 1 unchanged (DYN101). This was found by running the code." in told


def rows(text: str, name: str) -> list[list[str]]:
    """The cells of the table with a name."""
    table = re.search(rf'aria-label="{name}"><table>(.*?)</table>', text, re.DOTALL)
    assert table is not None
    return [
        [plain(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)]
        for row in re.findall(r"<tr>(.*?)</tr>", table[1], re.DOTALL)
    ]


def test_verdicts_are_counted_with_their_reasons(report: Report) -> None:
    assert rows(page(report), "Verdicts and their reasons") == [
        ["Verdict", "Findings", "Reason"],
        ["confirmed", "1", "GB0170 Detected data-dependent branching."],
        ["confirmed", "1", "guard failed: self.n == 0"],
        ["static", "13", "The code was not run."],
        ["unconfirmed", "1", "Model was not run: no inputs."],
        ["refuted", "2", "Dynamo traced the code without a graph break. To see these findings, pass --show-refuted."],
    ]


def test_many_reasons_are_counted(make: Make) -> None:
    found = [make(line, evidence=Evidence("unconfirmed", f"reason {line:02}.")) for line in range(1, 31)]
    table = rows(page(Report(found)), "Verdicts and their reasons")
    assert len(table) == 14
    assert table[-1] == ["unconfirmed", "18", "18 other reasons"]


def test_the_baseline_is_compared_rule_by_rule(report: Report) -> None:
    text = page(report)
    assert rows(text, "Findings by rule, compared with the baseline") == [
        ["Rule", "Baseline", "Now", "New", "Gone"],
        ["DYN101 branch-on-tensor", "1", "14", "13", "0"],
        ["DYN401 print-call", "0", "1", "1", "0"],
        ["DYN501 python-counter", "0", "1", "1", "0"],
        ["DYN901 syntax-error", "0", "1", "1", "0"],
        ["DYN402 log-call", "1", "0", "0", "1"],
        ["All", "2", "17", "16", "1"],
    ]
    assert "1 finding no longer found" in text
    assert 'id="baseline"' not in page(replace(report, compared=None))


def test_diffs_are_shown_and_counted(report: Report) -> None:
    text = page(report)
    assert [row[:5] for row in rows(text, "Diffs by rule")] == [
        ["Rule", "Safe", "Conditional", "Unsafe", "Suggestion"],
        ["DYN101 branch-on-tensor", "0", "1", "0", "0"],
        ["DYN401 print-call", "1", "0", "0", "0"],
        ["DYN501 python-counter", "0", "0", "1", "0"],
    ]
    assert '<span class="gone">-        if x.sum() &gt; 0:</span>' in text
    assert '<span class="new">+        return torch.where(x &gt; 0, x, -x)' in text


def test_nothing_found_is_a_page_too() -> None:
    text = page(Report([]))
    assert "<h1>0 findings in 0 files</h1>" in text
    assert "<section" not in text


LINES = ("import torch", "", "def f(x):", "    return x")


@pytest.mark.parametrize(
    ("edits", "diff"),
    [
        ([Edit(4, 12, 4, 13, "x + 1")], ["-    return x", "+    return x + 1"]),
        ([Edit(3, 1, 4, 13, "f = abs")], ["-def f(x):", "-    return x", "+f = abs"]),
        ([Edit(1, 1, 1, 1, "import a\n"), Edit(1, 1, 1, 1, "import b\r\n")], ["+import a", "+import b"]),
        (
            [Edit(4, 12, 4, 13, "y"), Edit(3, 7, 3, 8, "y")],
            ["-def f(x):", "-    return x", "+def f(y):", "+    return y"],
        ),
        ([Edit(4, 13, 9, 9, "\n\ny = 1")], ["+", "+y = 1"]),
    ],
)
def test_a_diff_is_made_from_edits(make: Make, edits: list[Edit], diff: list[str]) -> None:
    finding = make(fix=Fix("Do it", "safe", edits=tuple(edits)))
    ((place, shown),) = offered_diff(finding, {"model.py": LINES})
    assert place == "model.py"
    assert [line for line in shown if line[0] in "+-"] == diff


def test_diffs_of_cells_and_of_other_files(make: Make) -> None:
    edits = (Edit(1, 1, 1, 1, "a\n", cell=2), Edit(1, 1, 1, 1, "b\n", path="other.py"))
    finding = make(cell=2, fix=Fix("Do it", "safe", edits=edits))
    places = list(offered_diff(finding, {"model.py": ("not this",), "model.py:cell 2": ("x = 1",)}))
    assert places == [("model.py:cell 2", ["@@ -1 +1,2 @@", "+a", " x = 1"]), ("other.py", [])]
    assert "other.py</code> also changes" in page(Report([finding], {"model.py:cell 2": ("x = 1",)}))


MODEL = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        print("called")
        return x
"""


def test_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(MODEL)
    assert run(["check", "--static", "--isolated", "--write-baseline", "known.json"]) == 0
    Path("model.py").write_text(f"{MODEL}\n\nclass Other(Model):\n    def forward(self, x):\n        return x.item()\n")
    options = ["--static", "--isolated", "--output-format", "html", "-o", "report.html"]
    assert run(["check", *options, "--baseline", "known.json"]) == 1
    text = Path("report.html").read_text(encoding="utf-8")
    assert "<h1>1 finding in 1 file</h1>" in text
    assert rows(text, "Findings by rule, compared with the baseline")[-1] == ["All", "1", "2", "1", "0"]
    assert "x.item()" in text


SPECIAL = """
const opened = [...page.querySelectorAll("details")].filter((one) => one.open).length;
const link = page.querySelector("a[href='#finding-9']");
link.focus();
const focused = page.activeElement === link;
view.location.hash = "#finding-9";
const target = page.querySelector(":target");
for (const one of page.querySelectorAll("details")) one.open = true;
const scrolling = [...page.querySelectorAll("pre, .wide")].filter((one) => one.scrollWidth > one.clientWidth);
return {
  opened, focused, target: target && target.id, headings: [...page.querySelectorAll("h1, h2, h3, h4")].map((one) => +one.tagName[1]),
  stuck: scrolling.filter((one) => { one.focus(); return page.activeElement !== one; }).length, scrolling: scrolling.length,
  landmarks: ["header", "nav", "main", "footer"].filter((one) => page.querySelectorAll(one).length === 1).length,
};
"""


@pytest.mark.may_skip
@pytest.mark.parametrize("width", [380, 1400])
@pytest.mark.parametrize("flags", [(), ("--force-dark-mode",)], ids=["light", "dark"])
def test_in_a_browser(report: Report, tmp_path: Path, width: int, flags: tuple[str, ...]) -> None:
    seen = browse(page(report), tmp_path, width, *flags, special=SPECIAL)
    assert seen["texts"] > 200
    assert seen["dim"] == []
    assert (sum(seen["paper"]) < 150) == bool(flags)
    assert seen["wide"] <= 0
    # The dearest levels are open; all that scrolls sideways can be reached and scrolled by keyboard.
    assert seen["opened"] == 2
    assert seen["focused"]
    assert seen["target"] == "finding-9"
    assert (seen["scrolling"] > 0) == (width == 380)
    assert seen["stuck"] == 0
    assert seen["unnamed"] == 0
    assert seen["landmarks"] == 4
    headings = seen["headings"]
    assert headings[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(headings))


@pytest.mark.may_skip
def test_nothing_of_the_user_comes_to_life(hostile: Report, tmp_path: Path) -> None:
    special = "return { scripts: page.scripts.length, links: page.querySelectorAll('a[href^=javascript]').length };"
    seen = browse(page(hostile), tmp_path, 1000, special=special)
    assert seen["images"] == 0
    assert seen["scripts"] == 0
    assert seen["links"] == 0
    assert seen["wide"] <= 0
