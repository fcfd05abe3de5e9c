"""What is printed about hostile code acts on no terminal, no runner of a CI system and no page."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from dynalint.explaining import html as page
from dynalint.explaining import text as explained
from dynalint.explaining.model import Eager, ExplainedBreak, Explanation, OwnFinding, Place, Source
from dynalint.findings import Edit, Evidence, Finding, Fix
from dynalint.fix.model import unified_diff
from dynalint.report import FORMATS, Report, Style, render, render_statistics, runners
from dynalint.report.markdown import prose, step_summary
from dynalint.report.style import visible

from .conftest import Victim

ESCAPE, BELL, CSI, RIGHT_TO_LEFT, SURROGATE = "\x1b[2J", "\x07", "\x9b31m", "\u202e", "\udce9"
ACTING = {
    "escape": ESCAPE,
    "bell": BELL,
    "c1": CSI,
    "bidi": RIGHT_TO_LEFT,
    "isolate": "\u2066",
    "delete": "\x7f",
    "return": "safe\rgone",
    "line": "a\n::add-mask::x",
    "separator": "a\u2028::add-mask::x",
    "surrogate": SURROGATE,
    "old-command": "##[add-mask]x",
    "hidden-command": "#\u200d#\u00ad[add-mask]x",
    "azure": "##vso[task.setvariable variable=x]y",
    "teamcity": "##teamcity[buildStop]",
    "command": "::add-mask::x",
}
FOR_TERMINALS = ("full", "concise", "grouped", "markdown", "html", "github")

# Characters that a terminal or a reader must never be given.
FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ud800-\udfff]")


def taken(output: str) -> Iterator[str]:
    """Yield the commands that GitHub's runner and others take from output, as their sources have it."""
    stopped: str | None = None
    # They compare by culture, for which characters that are not seen are not there.
    seen = "".join(one for one in output if 0x20 <= ord(one) < 0x7F or one in "\r\n")
    for line in re.split(r"\r\n|\r|\n", seen):
        match = re.match(r"\s*::([\w-]+)[^:]*?::(.*)", line) or re.search(
            r"##(?:vso|teamcity)?\[([\w.-]+)[^]]*\]?(.*)", line
        )
        if match is None:
            continue
        if stopped is not None:
            stopped = None if match[1] == stopped else stopped
        elif match[1] == "stop-commands":
            stopped = match[2]
        else:
            yield match[1]


def hostile(text: str) -> Finding:
    """A finding with a text of the attacker's wherever code under check has a say."""
    fix = Fix(f"Use {text}", "unsafe", (text,), (Edit(1, 1, 1, 2, text),))
    return Finding(
        text, 1, 1, 1, 3, "DYN101", "branch-on-tensor", "graph-break", "error", f"{text} is `{text}`", f"help {text}",
        "https://example.org", text, ("f", text), evidence=Evidence("confirmed", text, "GB0170", "2.13"), fix=fix,
    )  # fmt: skip


@pytest.mark.parametrize("name", ACTING)
def test_no_format_for_people_acts(name: str) -> None:
    report = Report([hostile(ACTING[name])], {ACTING[name]: [f"if x:  # {ACTING[name]}"]}, failures=(ACTING[name],))
    for form in FOR_TERMINALS:
        output = render(form, report, Style())
        assert not FORBIDDEN.search(output), form
        assert set(taken(output)) <= ({"error"} if form == "github" else set()), form
    assert not FORBIDDEN.search(step_summary(report))


@pytest.mark.parametrize("name", ACTING)
def test_documents_keep_the_value_and_hold_no_command(name: str) -> None:
    text = ACTING[name]
    report = Report([hostile(text)], failures=(text,))
    for form in ("json", "json-lines", "sarif", "gitlab"):
        output = render(form, report, Style())
        assert output.isascii()
        assert not list(taken(output)), form
        value = json.loads(output)
        if form.startswith("json"):
            found = value[0] if form == "json" else value
            assert (found["path"], found["fix"]["edits"][0]["content"]) == (text, text)
    output = render("junit", report, Style())
    assert not list(taken(output))
    case = ET.fromstring(output.encode("utf-8")).find("testsuite/testcase")
    assert case is not None
    assert case.get("classname") == visible(text)


def test_every_format_is_covered() -> None:
    assert set(FORMATS) == {*FOR_TERMINALS, "json", "json-lines", "sarif", "gitlab", "junit"}


def test_statistics_show_what_a_run_said() -> None:
    finding = hostile("x")
    report = Report([finding.__class__(**{**_fields(finding), "evidence": Evidence("confirmed", gb=ESCAPE)})])
    assert not FORBIDDEN.search(render_statistics("full", report, Style()))


def _fields(finding: Finding) -> dict[str, object]:
    return {name: getattr(finding, name) for name in finding.__dataclass_fields__}


@pytest.mark.parametrize(
    "text",
    [
        "![x](http://evil)",
        "<img src=//evil>",
        "`a` ![x](//e) `b`",
        "`` ` ![x](//e) ` ``",
        "@team",
        "#12",
        "http://evil.org",
        "www.evil.org",
        "a | b\n# head",
        "[x]: //evil",
        "<!-- ",
        "</code><script>",
    ],
)
def test_markdown_makes_nothing_of_text(text: str) -> None:
    for output in (render("markdown", Report([hostile(text)]), Style()), prose(f"say {text}")):
        outside = re.sub(r"(?<!`)`[^`]+`(?!`)", "", output)  # what stands in code is shown as it is
        outside = outside.replace("[DYN101](https://example.org)", "")
        assert not re.search(r"!\[|\]\(|<(?!/?code>)|://|www\.|@\w|(?<![&\w])#\w", outside), outside
        assert "`" not in outside


def test_sarif_has_no_links_and_no_placeholders() -> None:
    output = json.loads(render("sarif", Report([hostile("[click](http://evil) {0}")], failures=("[a](b)",)), Style()))
    (run,) = output["runs"]
    texts = [
        run["results"][0]["message"]["text"],
        run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"],
    ]
    assert not any(re.search(r"(?<!\\)\[[^]]*\]\(", text) for text in texts)
    assert "{{0}}" in texts[0]
    (place,) = json.loads(render("sarif", Report([hostile("a b/%2e\n#?é\udce9.py")]), Style()))["runs"][0]["results"][
        0
    ]["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "a%20b/%252e%0A%23%3F%C3%A9%E9.py"


@pytest.mark.parametrize("form", [*FORMATS])
def test_a_huge_line_makes_no_huge_report(form: str) -> None:
    line = "x" * 4_000_000
    finding = Finding("m.py", 1, 2_000_000, 1, 2_000_010, "DYN101", "n", "graph-break", "error", "short")
    output = render(form, Report([finding] * 20, {"m.py": [line, line, line]}), Style())
    assert len(output) < 100_000


# Diffs.


def test_a_name_cannot_forge_a_diff(tmp_path: Path) -> None:
    name = "a.py\n--- a/victim\n+++ b/victim\n@@ -1 +1 @@\n-good\n+evil\n"
    diff = unified_diff("x = 1\n", "x = 2\n", name)
    assert [line for line in diff.splitlines() if line.startswith(("---", "+++"))] == diff.splitlines()[:2]
    (tmp_path / "victim").write_text("good\n")
    target = tmp_path / 'we"ird\n.py'
    target.write_text("x = 1\n")
    patch = unified_diff("x = 1\n", "x = 2\n", target.name)
    subprocess.run(["git", "apply", "-"], input=patch, text=True, cwd=tmp_path, check=True)
    assert (target.read_text(), (tmp_path / "victim").read_text()) == ("x = 2\n", "good\n")


DIFF = f"--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n   ::add-mask::the\n-x = '{ESCAPE}'  ##[add-mask]x\r\n+y\n"


@pytest.mark.parametrize(
    "text", [DIFF, " a\r::add-mask::x\n", "+\u00a0:\u200d:add-mask::x\n".replace("+", ""), " ##[x]"]
)
def test_actions_take_nothing_from_a_diff(text: str) -> None:
    assert list(taken(text))
    sent = runners.exact(text, {"GITHUB_ACTIONS": "true"})
    assert sent is not None
    assert not list(taken(sent))
    assert text in sent  # not a byte of it is changed
    assert sent == runners.exact(text, {"GITHUB_ACTIONS": "true"})
    assert list(taken(sent + "::notice::after\n")) == ["notice"]  # and what comes later counts again


def test_a_diff_that_holds_no_command_is_sent_as_it_is() -> None:
    harmless = " x[::2], a::b\n+## [head]\n"
    for environment in ({}, {"GITHUB_ACTIONS": "true"}, {"TF_BUILD": "True"}):
        assert runners.exact(harmless, environment) == harmless
    assert runners.exact(DIFF, {}) == DIFF
    for variable in ("TF_BUILD", "TEAMCITY_VERSION", "GITLAB_CI"):
        assert runners.exact(" section_start:1:x\r\x1b[0K ##vso[a]b\n", {variable: "1"}) is None


CODE = f'''\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """
::add-mask::hunter2
        """  # {ESCAPE}{BELL}{RIGHT_TO_LEFT} ##[add-mask]hunter2
        print(x)
        return x
'''


@pytest.fixture(scope="module")
def hostile_clone(tmp_path_factory: pytest.TempPathFactory) -> Victim:
    victim = Victim(tmp_path_factory.mktemp("output"))
    victim.write("repository/m.py", CODE)
    # A message of the configuration's, a file name that is a command, one that no encoding has.
    victim.write("repository/sub/::error::owned.py", CODE)
    victim.write(os.fsdecode(b"repository/bad\xe9\x1b[31m.py"), CODE)
    return victim


FIX = ("fix", "--static", "--config", "print-fix='remove'", "--unsafe-fixes", "m.py")


def test_a_diff_in_a_pipe_is_exact(hostile_clone: Victim) -> None:
    plain = hostile_clone.dynalint(*FIX)
    assert plain.returncode == 1, plain.stderr
    assert ESCAPE in plain.stdout
    assert "\n ::add-mask::hunter2\n" in plain.stdout
    actions = hostile_clone.dynalint(*FIX, environment={"GITHUB_ACTIONS": "true"})
    assert plain.stdout in actions.stdout
    assert not list(taken(actions.stdout))
    assert not list(taken(actions.stderr))
    azure = hostile_clone.dynalint(*FIX, environment={"TF_BUILD": "True"})
    assert not FORBIDDEN.search(azure.stdout)
    assert "this CI system" in azure.stderr


def test_a_diff_in_a_file_is_exact_on_every_runner(hostile_clone: Victim) -> None:
    file = hostile_clone.home / "patch"
    with file.open("wb") as stream:
        subprocess.run(
            [sys.executable, "-m", "dynalint", *FIX], cwd=hostile_clone.repository, stdout=stream, check=False,
            env=hostile_clone.environment({"GITHUB_ACTIONS": "true"}), stderr=subprocess.DEVNULL,
        )  # fmt: skip
    assert file.read_bytes().startswith(b"--- a/m.py\n")
    assert b"stop-commands" not in file.read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="terminals are made otherwise there")
def test_a_diff_on_a_terminal_is_visible(hostile_clone: Victim) -> None:
    import pty

    main, other = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "dynalint", *FIX, "--color", "never"], cwd=hostile_clone.repository, stdout=other,
        stderr=subprocess.PIPE, env=hostile_clone.environment({}), check=False,
    )  # fmt: skip
    os.close(other)
    output = os.read(main, 1 << 16).decode().replace("\r\n", "\n")
    os.close(main)
    assert "print(x)" in output
    assert not FORBIDDEN.search(output)
    assert b"control characters in the diff were replaced" in done.stderr


@pytest.mark.parametrize("form", [*FORMATS])
def test_names_that_no_encoding_has_reach_a_file(hostile_clone: Victim, form: str) -> None:
    from dynalint.cli import run

    file = hostile_clone.home / f"report-{form}"
    before = Path.cwd()
    os.chdir(hostile_clone.repository)
    try:
        assert run(["check", "--static", "--isolated", "--output-format", form, "-o", str(file)]) == 1
    finally:
        os.chdir(before)
    output = file.read_text(encoding="utf-8")
    assert not list(taken(output)) or form == "github"
    assert not FORBIDDEN.search(output)


@pytest.mark.parametrize(
    "arguments",
    [("check", "--show-files"), ("check", "no\x1b[2J##[x]y"), ("check", "--n\x1b[2Jo"), ("config", "show", "--config", "exclude=['\x1b\u202e']")],
)  # fmt: skip
def test_lists_and_errors_act_on_nothing(
    hostile_clone: Victim,
    arguments: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from dynalint.cli import run

    monkeypatch.chdir(hostile_clone.repository)
    run(arguments)
    output = "".join(capsys.readouterr())
    assert output
    assert not FORBIDDEN.search(output.replace("\udce9", ""))
    assert not list(taken(output))


# What `explain` shows.


class _Tags(HTMLParser):
    """Collects what a page has that text must not bring: tags that act, attributes with addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts, self.found = 0, []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        if tag in ("img", "iframe", "svg", "form", "object", "link", "base"):
            self.found.append(tag)
        for name, value in attributes:
            if name.startswith("on") or (name in ("src", "href") and not str(value).startswith("#")):
                self.found.append(f"{name}={value}")


@pytest.mark.parametrize(
    "text", ['"><img src=x onerror=alert(1)>', "</script><script>x</script>", "javascript:x", ESCAPE]
)
def test_the_page_and_the_text_of_an_explanation(text: str) -> None:
    place = Place("m.py", 1, 1, 5)
    found = Explanation(
        target=text, inputs=text, torch=text, python=text, device="cpu", calls=(1, 0), graphs=(),
        breaks=(_break(text, place),), recompiles=(), eager=(Eager(text, Place(text, 1), text),), steps=(),
        fullgraph=False, fullgraph_error=text, error=text, notes=(text,),
        sources=(Source("m.py", (f"f({text}) # `{text}`",), frozenset({1}), ()),),
    )  # fmt: skip
    output = page.render(found)
    tags = _Tags()
    tags.feed(output)
    assert (tags.scripts, tags.found) == (1, [])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', output)
    assert policy is not None
    assert "script-src &#x27;sha256-" in policy[1]
    assert "form-action" in policy[1]
    assert not FORBIDDEN.search(output)
    assert not FORBIDDEN.search(explained.render(found, Style(), verbose=True))


def _break(text: str, place: Place) -> ExplainedBreak:
    values: dict[str, object] = {
        "gb": text, "type": text, "reason": text, "explanation": text, "hints": (text,), "place": place,
        "function": text, "inside": text, "rule": OwnFinding("DYN101", "n", text, text, text),
        "loses": (text,), "cuts_off": (text,), "ends": (), "consequence": True,
    }  # fmt: skip
    return ExplainedBreak(**values)  # type: ignore[arg-type]


# What an editor shows.


def test_a_hover_keeps_code_in_its_fence() -> None:
    translate = pytest.importorskip("dynalint.server.translate")
    finding = hostile("```\n[x](command:evil) <img src=x>")
    output: str = translate.hover(finding, "+```\n+[run](command:workbench.evil)\n+" + "y" * 5_000_000, chain=True)
    marks = re.findall(r"^`{3,}.*$", output, re.MULTILINE)
    assert marks[0] == "````diff"
    assert marks[-1] == "````"
    outside = output.replace(output[output.index("````diff") :], "")
    assert "](command" not in re.sub(r"(?<!`)`[^`]+`(?!`)", "", outside)
    assert "<img" not in outside
    assert len(output) < 20_000
