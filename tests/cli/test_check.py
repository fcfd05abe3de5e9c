"""`dynalint check`: exit codes, what is reported, where it goes."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dynalint import engine
from dynalint.cli.console import style_for

Run = Callable[..., Any]


def test_findings_are_reported_in_the_terms_of_the_contract(check: Run, model: Path) -> None:
    ran = check()
    assert ran.code == 1
    branch, call = ran.json
    url = branch.pop("url")
    assert url.endswith("DYN101.md")
    assert branch == {
        "path": "model.py",
        "line": 7,
        "column": 12,
        "end_line": 7,
        "end_column": 23,
        "code": "DYN101",
        "name": "branch-on-tensor",
        "category": "graph-break",
        "severity": "error",
        "message": "Branch on a tensor",
        "help": "Use `torch.where`.",
        "function": "Model.forward",
        "region": ["Model.forward"],
        "gb": ["GB0170"],
        "evidence": {
            "status": "static",
            "detail": "",
            "gb": None,
            "torch": None,
            "fullgraph": None,
            "recompiles": None,
            "effect": None,
        },
        "fix": {
            "title": "No fix is offered",
            "safety": "suggestion",
            "conditions": [],
            "verified": None,
            "changes": [],
            "tests": [],
            "edits": [],
            "declined": "the branches do different things",
        },
        "fingerprint": branch["fingerprint"],
        "likelihood": "likely",
        "doubt": "",
    }
    assert re.fullmatch("[0-9a-f]{32}", branch["fingerprint"])
    assert call["fix"]["edits"] == [
        {"line": 9, "column": 9, "end_line": 9, "end_column": 17, "content": "if not flag: pass"}
    ]


def test_nothing_to_report(check: Run, dynalint: Run, place: Path) -> None:
    (place / "empty.py").write_text("")
    ran = check()
    assert (ran.json, ran.err, ran.code) == ([], "", 0)
    assert dynalint("check", "--static").out == "All checks passed!\n"


def test_no_file_to_check_is_clean_and_said(check: Run, place: Path) -> None:
    (place / "notes.txt").write_text("none")
    ran = check()
    assert (ran.json, ran.code) == ([], 0)
    assert ran.err == "note: no Python files were found in the given paths.\n"
    assert check("-q").err == ""


def test_a_missing_path_is_wrong_usage(dynalint: Run, model: Path) -> None:
    ran = dynalint("check", "--static", "model.py", "no/such")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error: no/such: no such file or directory.\n"


def test_a_stub_is_passed_over_with_a_note(check: Run, model: Path) -> None:
    Path("b.pyi").write_text("")
    ran = check("b.pyi", "model.py")
    assert ran.places == ["model.py:7 DYN101", "model.py:9 DYN401"]
    assert "b.pyi" in ran.err


@pytest.mark.parametrize("name", ["with space.py", "a,b:100%.py", "é 日本.py", "-x.py", "[a].py", "::error::.py"])
def test_odd_names(check: Run, model: Path, name: str) -> None:
    model.rename(name)
    assert [one["path"] for one in check().json] == [name, name]
    assert check("--", name).json == check().json


def test_form_feeds_and_a_missing_last_newline(check: Run, model: Path) -> None:
    text = model.read_text()
    model.write_text("\x0c\n" + text.replace("\n\n\n", "\n\x0c\n\n").rstrip("\n"))
    assert check().places == ["model.py:8 DYN101", "model.py:10 DYN401"]


@pytest.mark.parametrize(
    ("content", "where", "words"),
    [
        (b"def f(:\n", "1:7", "syntax"),
        (b"x = 1\n\x00", "2:1", "null bytes"),
        (b"\x7fELF\x02\x00\xff\xfe", "1:1", "binary"),
        (b'x = "caf\xe9"\n', "1:1", "decode"),
        (b"# coding: no-such\n", "1:1", "no-such"),
        (b"if x:\ny = 1\n", "2:1", "indent"),
    ],
)
def test_a_file_that_is_no_python_is_one_finding(
    check: Run, model: Path, content: bytes, where: str, words: str
) -> None:
    Path("broken.py").write_bytes(content)
    ran = check()
    broken = ran.json[0]
    assert (broken["path"], broken["code"], broken["category"]) == ("broken.py", "DYN901", "error")
    assert f"{broken['line']}:{broken['column']}" == where
    assert words in broken["message"]
    assert len(ran.json) == 3
    assert ran.code == 1


def test_a_syntax_error_is_told_whatever_is_selected(check: Run) -> None:
    Path("broken.py").write_text("(")
    assert check("--select", "DYN1").places == ["broken.py:1 DYN901"]
    assert check("--ignore", "DYN901").json == []
    assert check("--per-file-ignores", "broken.py:DYN9").json == []


def test_exit_zero_and_fail_on(check: Run, model: Path) -> None:
    assert check("--exit-zero").code == 0
    assert check("--fail-on", "recompile").code == 0
    assert check("--fail-on", "recompile", "--fail-on", "graph-break").code == 1
    assert len(check("--fail-on", "recompile").json) == 2


def test_a_rule_that_fails_costs_only_its_own_answer(check: Run, place: Path) -> None:
    (place / "slow.py").write_text(
        "import time\nfrom torch import nn\n\n\nclass M(nn.Module):\n"
        "    def forward(self, x):\n        time.sleep(1)\n        print(x)\n        return x\n"
    )
    ran = check("--exit-zero")
    assert ran.places == ["slow.py:8 DYN401"]
    assert ran.err == "error: slow.py:7: DYN499 failed: ZeroDivisionError: on purpose\n"
    assert "from the cache" not in check("-v").err  # another attempt may succeed
    assert ran.code == 2


def test_a_failure_of_dynalint_is_one_line(dynalint: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("out of\ncheese")

    monkeypatch.setattr(engine, "check", fail)
    ran = dynalint("check", "--static")
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert "RuntimeError: out of" in ran.err


def test_interrupted(dynalint: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "check", interrupt)
    ran = dynalint("check", "--static")
    assert (ran.code, ran.out, ran.err) == (130, "", "\nerror: interrupted\n")


def test_a_request_to_end_interrupts(dynalint: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def terminated(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
        raise AssertionError("nothing came of it")

    monkeypatch.setattr(engine, "check", terminated)
    former = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        ran = dynalint("check", "--static")
        assert (ran.code, ran.out, ran.err) == (130, "", "\nerror: interrupted\n")
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, former)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--static", "--confirm"],
        ["--isolated", "--config", "dynalint.toml"],
        ["--config", "no-such-file.toml"],
        ["--stdin-filename", "x.py"],
        ["--show-files", "--statistics"],
        ["-", "model.py"],
    ],
)
def test_options_that_do_not_go_together(dynalint: Run, model: Path, arguments: list[str]) -> None:
    Path("dynalint.toml").write_text("")
    ran = dynalint("check", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1


def test_output_is_the_same_whatever_the_order_and_spelling_of_paths(dynalint: Run, place: Path, model: Path) -> None:
    (place / "pkg").mkdir()
    for name in ("a.py", "pkg/b.py", "pkg/c.py"):
        (place / name).write_text(model.read_text())
    expected = dynalint("check", "--static")
    assert "Found 8 findings" in expected.out
    for paths in (
        ["pkg/c.py", "a.py", "pkg", "model.py", "pkg/../a.py"],
        [str(place)],
        [str(place / "pkg"), "./model.py", str(place / "a.py")],
    ):
        for more in ([], ["-j", "1"], ["--no-cache"]):
            assert dynalint("check", "--static", *more, *paths) == expected


def test_a_working_directory_named_through_a_link(check: Run, place: Path, model: Path) -> None:
    link = place.parent / "link"
    link.symlink_to(place)
    assert check(str(link / "model.py")).places == check("model.py").places


def test_paths_outside_of_the_working_directory(
    check: Run, place: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "deeper").mkdir()
    monkeypatch.chdir(place / "deeper")
    assert check("../model.py").places[0] == "../model.py:7 DYN101"
    assert check(str(place)).places[0] == "../model.py:7 DYN101"


def test_output_file(dynalint: Run, model: Path) -> None:
    ran = dynalint("check", "--static", "--output-file", "out.txt", "--color", "always")
    assert (ran.code, ran.out) == (1, "")
    assert "DYN101 branch-on-tensor: Branch on a tensor" in Path("out.txt").read_text()
    ran = dynalint("check", "--static", "--output-file", "no/such/folder.txt")
    assert ran.code == 2
    assert "no/such/folder.txt" in ran.err


@pytest.mark.parametrize(
    ("choice", "variables", "terminal", "coloured"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"FORCE_COLOR": "0"}, False, False),
        ("auto", {"CLICOLOR_FORCE": "1"}, False, True),
        ("auto", {"CLICOLOR": "0"}, True, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_colour(choice: Any, variables: dict[str, str], terminal: bool, coloured: bool) -> None:
    stream = io.StringIO()
    stream.isatty = lambda: terminal  # type: ignore[method-assign]
    assert style_for(stream, choice, variables).color is coloured


def test_show_files(dynalint: Run, model: Path) -> None:
    Path("z.txt").write_text("")
    ran = dynalint("check", "--show-files")
    assert (ran.out, ran.code) == ("model.py\n", 0)


def test_statistics(dynalint: Run, model: Path) -> None:
    ran = dynalint("check", "--static", "--statistics")
    assert ran.code == 1
    assert ran.out.splitlines()[0].split() == ["found", "confirmed", "fixable", "unlikely", "code", "name"]
    assert ran.out.splitlines()[1].split() == ["1", "0", "0", "0", "DYN101", "branch-on-tensor"]
    rows = json.loads(dynalint("check", "--static", "--statistics", "--output-format", "json").out)
    assert rows["rules"][1] == {
        "found": 1,
        "confirmed": 0,
        "fixable": 1,
        "unlikely": 0,
        "code": "DYN401",
        "name": "print-call",
    }


def test_quiet_writes_findings_and_nothing_else(dynalint: Run, model: Path) -> None:
    ran = dynalint("check", "--static", "-q", "--output-format", "concise")
    assert ran.out == "model.py:7:12: DYN101 Branch on a tensor\nmodel.py:9:9: DYN401 A call of `print`\n"
    assert ran.err == ""


def test_fixes_are_shown_on_demand(dynalint: Run, model: Path) -> None:
    ran = dynalint("check", "--static")
    assert "= fix: " not in ran.out
    assert ran.out.endswith("Found 2 findings. To see the available fixes, run `dynalint fix`.\n")
    ran = dynalint("check", "--static", "--show-fixes")
    assert "= fix: " in ran.out
    assert ran.out.endswith("Found 2 findings (1 fixable with `dynalint fix --apply`).\n")


@pytest.mark.parametrize("form", ["concise", "github", "gitlab", "junit"])
def test_a_check_that_shows_no_fix_makes_none(
    dynalint: Run, model: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dynalint.linting.offers.Offers.made", lambda *_: pytest.fail("a fix was made"))
    assert dynalint("check", "--static", "--output-format", form).code == 1


def test_a_rule_that_fails_at_a_fix_costs_the_fix(dynalint: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (rule,) = (rule for rule in engine.all_rules() if rule.code == "DYN401")

    def fails(*_: object) -> None:
        raise ValueError("no such thing")

    monkeypatch.setattr(type(rule), "fix", fails)
    assert dynalint("check", "--static").code == 1
    ran = dynalint("check", "--static", "--output-format", "json")
    assert ran.code == 2
    assert "model.py:9: DYN401 failed: ValueError: no such thing" in ran.err
    assert len(json.loads(ran.out)) == 2


def test_releases_of_torch(check: Run, model: Path) -> None:
    assert "model.py:9 DYN402" not in check().places
    assert "model.py:9 DYN402" in check("--torch", "2.7").places
    assert "model.py:9 DYN402" in check("--torch", ">=2.6").places
    assert "model.py:9 DYN402" not in check("--torch", "2.13.1").places
    assert check("--torch", "new").code == 2


def test_select_roots(check: Run, model: Path) -> None:
    assert check("--select-roots", "explicit").json == []


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def test_standard_input(check: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, model.read_bytes().replace(b"print(x)", b"pass"))
    assert check("--stdin-filename", "model.py", "-").places == ["model.py:7 DYN101"]
    stdin(monkeypatch, model.read_bytes())
    assert check("-").places == ["-:7 DYN101", "-:9 DYN401"]
    stdin(monkeypatch, b"x = '\xff'")
    assert check("-").places == ["-:1 DYN901"]


def test_standard_input_of_an_excluded_file(check: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("dynalint.toml").write_text('extend-exclude = ["old"]')
    stdin(monkeypatch, model.read_bytes())
    assert len(check("--stdin-filename", "old/m.py", "-").json) == 2
    stdin(monkeypatch, model.read_bytes())
    assert check("--stdin-filename", "old/m.py", "--force-exclude", "-").json == []


def test_what_a_break_in_a_loop_hides_is_advice(dynalint: Run, place: Path) -> None:
    (place / "m.py").write_text(
        textwrap.dedent("""\
            import torch
            @torch.compile
            def run(x: torch.Tensor, flag: bool):
                if x.max() > 2:
                    x = x + 1
                for _ in range(3):
                    if flag:
                        x = x + 1 if x.min() > 0 else x
                    if x.sum() > 0:
                        x = x - 1
                    x = x + 1 if x.max() > 0 else x
                if x.mean() > 0:
                    x = x * 2
                while x.sum() > 10:
                    x = x / 2
                return x
        """)
    )
    ran = dynalint("check", "--static", "--output-format", "json", "m.py")
    found = {one["line"]: (one["category"], one["message"]) for one in ran.json}
    assert {line: category for line, (category, _) in found.items()} == {
        4: "graph-break",
        8: "graph-break",
        9: "graph-break",
        11: "advice",
        12: "advice",
        14: "advice",
    }
    assert "in eager mode because of line 9" in found[12][1]
