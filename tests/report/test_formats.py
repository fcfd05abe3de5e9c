"""The formats "grouped", "gitlab", "junit" and "markdown"."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from dynalint.findings import Evidence, Finding
from dynalint.report import Report, Style, render

Make = Callable[..., Finding]
PLAIN = Style()
NASTY = 'a,b:100% <&">\x1b\x00\udcff.py'


def test_grouped_by_file_and_aligned(make: Make) -> None:
    findings = [make(), make(120, 5), make(path="other.py")]
    assert render("grouped", Report(findings), PLAIN) == (
        "model.py:\n"
        "    3:12 DYN101 Branch on a tensor\n"
        "  120:5  DYN101 Branch on a tensor\n"
        "\n"
        "other.py:\n"
        "  3:12 DYN101 Branch on a tensor\n"
        "\n"
        "Found 3 findings.\n"
    )
    assert render("grouped", Report([]), PLAIN) == "All checks passed!\n"


def test_gitlab_has_one_issue_for_each_finding(rich: list[Finding], make: Make) -> None:
    findings = [*rich, make(path=NASTY, fingerprint="f" * 32)]
    issues = json.loads(render("gitlab", Report(findings, folder="sub"), PLAIN))
    assert [issue["severity"] for issue in issues] == ["critical", "minor", "critical", "info", "major"]
    assert issues[0]["location"] == {
        "path": "sub/model.py",
        "positions": {"begin": {"line": 3, "column": 12}, "end": {"line": 3, "column": 19}},
    }
    assert issues[-1]["fingerprint"] == "f" * 32
    assert issues[-1]["location"]["path"] == f"sub/{NASTY}"
    assert json.loads(render("gitlab", Report([]), PLAIN)) == []


def test_junit_has_one_failed_test_for_each_finding(rich: list[Finding], make: Make) -> None:
    text = render("junit", Report([*rich, make(path=NASTY, message="a\x0b ]]> <b> é\udcff")]), PLAIN)
    root = ET.fromstring(text)
    assert root.attrib == {"name": "dynalint", "tests": "5", "failures": "5", "skipped": "0", "errors": "0"}
    first, second = root
    assert (first.attrib["name"], first.attrib["failures"]) == ("model.py", "4")
    assert second.attrib["name"].startswith('a,b:100% <&">')
    case = first[0]
    assert (case.attrib["name"], case.attrib["line"]) == ("DYN101 branch-on-tensor", "3")
    failure = case[0]
    assert (failure.attrib["type"], failure.attrib["message"]) == ("DYN101", "Branch on a tensor")
    assert failure.text is not None
    assert failure.text.splitlines()[1:] == [
        "evidence: confirmed GB0170",
        "reached from Model.forward > Encoder.forward > Model.helper",
        "help: Use `torch.where`.",
    ]


def test_what_is_rarely_compiled_fails_nothing(make: Make) -> None:
    report = Report([make(), make(4, doubt="`train` steps an optimizer")])
    root = ET.fromstring(render("junit", report, PLAIN))
    assert (root.attrib["failures"], root.attrib["skipped"]) == ("1", "1")
    (skipped,) = root.findall(".//skipped")
    assert "rarely compiled: `train` steps an optimizer" in str(skipped.text)
    assert [one["severity"] for one in json.loads(render("gitlab", report, PLAIN))] == ["major", "info"]


def test_junit_without_findings_is_a_passed_test() -> None:
    root = ET.fromstring(render("junit", Report([]), PLAIN))
    assert root.attrib["failures"] == "0"
    assert len(root.findall("./testsuite/testcase")) == 1
    assert not root.findall(".//failure")


def test_markdown_is_a_table_with_links(make: Make) -> None:
    finding = make(url="https://example.org/DYN101", evidence=Evidence("confirmed", gb="GB0170"))
    assert render("markdown", Report([finding]), PLAIN).splitlines()[-1] == (
        "| <code>model.py:3</code> | [DYN101](https://example.org/DYN101) | Branch on a tensor | confirmed GB0170 |"
    )


@pytest.mark.parametrize("form", ["sarif", "gitlab", "junit", "markdown", "github", "json"])
def test_the_command_line_writes_it_to_a_file(form: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from dynalint.cli import run

    monkeypatch.chdir(tmp_path)
    (tmp_path / "a,b:100%.py").write_text("(")
    assert run(["check", "--static", "--isolated", "--output-format", form, "-o", "report"]) == 1
    assert "DYN901" in (tmp_path / "report").read_text(encoding="utf-8")
