"""The format "github": what the runner reads back, the limits, the summary of a step."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dynalint.findings import Evidence, Finding
from dynalint.report import Report, Style, render
from dynalint.report.markdown import step_summary
from dynalint.report.style import visible

Make = Callable[..., Finding]
_COMMAND = re.compile(r"::(?P<level>\w+) (?P<properties>.*?)::(?P<message>.*)")


def parse(output: str) -> list[dict[str, Any]]:
    """Read workflow commands as the runner does: split, then undo the escapes of each value."""
    commands = []
    for line in output.splitlines():
        match = _COMMAND.fullmatch(line)
        assert match is not None, line
        properties = dict(pair.split("=", 1) for pair in match["properties"].split(","))
        commands.append(
            {"level": match["level"], "message": unescape(match["message"], "\r\n%")}
            | {name: unescape(value, "\r\n:,%") for name, value in properties.items()}
        )
    return commands


def unescape(text: str, characters: str) -> str:
    assert not re.search(r"[\r\n]", text)
    for character in characters:
        text = text.replace(f"%{ord(character):02X}", character)
    return text


def annotations(report: Report) -> list[dict[str, Any]]:
    return parse(render("github", report, Style()))


def test_an_annotation(rich: list[Finding]) -> None:
    assert render("github", Report(rich[:1]), Style()) == (
        "::error title=dynalint (DYN101),file=model.py,line=3,endLine=3,col=12,endColumn=19"
        "::model.py:3:12: DYN101 Branch on a tensor%0A  confirmed by torch 2.13.0: GB0170%0A  help: Use `torch.where`.\n"
    )
    assert sorted(one["level"] for one in annotations(Report(rich))) == ["error", "error", "notice", "warning"]


@pytest.mark.parametrize("path", ["a,b:100%.py", "a%2Cb.py", "with space.py", "::error::x.py", "%0A.py", "日本/é.py"])
def test_strange_names_survive(make: Make, path: str) -> None:
    (one,) = annotations(Report([make(path=path)]))
    assert one["file"] == path
    assert one["message"].startswith(f"{path}:3:12: DYN101")


def test_strange_messages_survive(make: Make) -> None:
    message = "50% of\r\n::stop-commands::x\n::error file=y::%0A, done"
    output = render("github", Report([make(message=message)]), Style())
    assert output.count("\n") == 1
    assert visible(message) in parse(output)[0]["message"]


def test_columns_only_for_one_line(make: Make) -> None:
    (one,) = annotations(Report([make(end_line=5)]))
    assert (one["line"], one["endLine"]) == ("3", "5")
    assert not {"col", "endColumn"} & one.keys()


def test_files_are_relative_to_the_repository(make: Make) -> None:
    (one,) = annotations(Report([make()], folder="packages/core"))
    assert one["file"] == "packages/core/model.py"
    (one,) = annotations(Report([make(path="../x.py")], folder="packages/core"))
    assert one["file"] == "packages/x.py"


def test_at_most_ten_of_a_level_and_the_most_important_first(make: Make) -> None:
    errors = [make(line) for line in range(1, 13)]
    errors[11] = make(12, evidence=Evidence("confirmed", torch="2.13.0"))
    warnings = [make(line, code="DYN401", severity="warning") for line in range(1, 12)]
    infos = [make(line, severity="info") for line in range(1, 11)]
    shown = annotations(Report([*infos, *warnings, *errors]))
    levels = [one["level"] for one in shown]
    assert levels == ["error"] * 10 + ["warning"] * 10 + ["notice"] * 10
    assert [one["line"] for one in shown[:3]] == ["12", "1", "2"]
    assert shown[-1]["message"] == (
        "4 more findings are not annotated here, because GitHub only shows ten annotations of each level: 3 DYN101, 1 DYN401. "
        "The job summary lists all findings."
    )


def test_ten_of_each_level_need_no_notice(make: Make) -> None:
    findings = [make(line, severity=severity) for severity in ("error", "warning", "info") for line in range(1, 11)]
    assert len(annotations(Report(findings))) == 30
    assert render("github", Report([]), Style()) == ""


def test_step_summary(make: Make) -> None:
    nasty = make(path="a|b`<x>*.py", message="Uses `a|b` and *stars* <b>\n# head `open")
    confirmed = make(evidence=Evidence("confirmed", gb="GB0170"))
    text = step_summary(Report([confirmed, nasty]))
    assert text.splitlines()[:5] == [
        "### dynalint",
        "",
        "Found 2 findings (1 confirmed).",
        "",
        "| Location | Code | Finding | Evidence |",
    ]
    rows = text.splitlines()[6:]
    assert rows[0] == "| <code>model.py:3</code> | DYN101 | Branch on a tensor | confirmed GB0170 |"
    assert rows[1] == (
        "| <code>a&#124;b&#96;&lt;x&gt;&#42;.py:3</code> | DYN101 "
        "| Uses <code>a&#124;b</code> and &#42;stars&#42; &lt;b&gt;␊# head &#96;open | static |"
    )
    assert step_summary(Report([])) == "### dynalint\n\nAll checks passed!\n"


def test_the_step_summary_keeps_its_size(make: Make) -> None:
    findings = [make(line, message="é" * 50) for line in range(1, 1000)]
    for room in (1_000, 10_000, 100_000):
        text = step_summary(Report(findings), room)
        assert len(text.encode()) <= room
        shown = text.count("| DYN101 |")
        assert text.endswith(f"\n{999 - shown} more findings did not fit here.\n")
    assert step_summary(Report(findings), 10) == ""


def test_the_command_line_writes_the_summary(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dynalint.cli import run

    project = tmp_path / "repo" / "sub"
    project.mkdir(parents=True)
    (project / "broken.py").write_text("(")
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.chdir(project)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "repo"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert run(["check", "--static", "--isolated", "--output-format", "github"]) == 1
    assert parse(capsys.readouterr().out)[0]["file"] == "sub/broken.py"
    assert summary.read_text().startswith("before\n### dynalint\n")
    assert "sub/broken.py:1" in summary.read_text()
