"""The format "sarif": valid by the published schema, and what GitHub reads of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dynalint.adoption.fingerprints import fingerprinted
from dynalint.findings import Edit, Evidence, Finding, Fix, Step
from dynalint.report import Report, Style, render
from dynalint.rulebook.catalogue import catalogue

Make = Callable[..., Finding]
# As published by OASIS, errata 01.
SCHEMA = json.loads((Path(__file__).parent / "data" / "sarif-2.1.0.json").read_text(encoding="utf-8"))


def sarif(report: Report) -> dict[str, Any]:
    """Render, validate and return the one run."""
    log = json.loads(render("sarif", report, Style()))
    jsonschema.Draft4Validator(SCHEMA).validate(log)
    (run,) = log["runs"]
    assert isinstance(run, dict)
    return run


def test_the_schema_is_strict_enough_to_fail() -> None:
    log = json.loads(render("sarif", Report([]), Style()))
    log["runs"][0]["tool"]["driver"].pop("name")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft4Validator(SCHEMA).validate(log)


def test_every_kind_of_finding_is_valid(rich: list[Finding], lines: Any, make: Make) -> None:
    nasty = make(path='a,b:100% <&">\udcff é.py', message="::stop\r\n\x00")
    findings = fingerprinted([*rich, nasty], lines)
    run = sarif(Report(findings, lines, entries=catalogue(), failures=["x.py: cannot analyse f: \x1b"]))
    assert [result["ruleId"] for result in run["results"]] == [finding.code for finding in findings]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    assert run["invocations"][0]["executionSuccessful"] is False
    uri = run["results"][-1]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "a%2Cb%3A100%25%20%3C%26%22%3E%FF%20%C3%A9.py"
    assert sarif(Report([]))["results"] == []


def test_what_github_asks_for(rich: list[Finding], lines: Any) -> None:
    run = sarif(Report(fingerprinted(rich, lines), lines, entries=catalogue(), folder="sub"))
    first = run["results"][0]
    (place,) = first["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "sub/model.py", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 3, "startColumn": 12, "endLine": 3, "endColumn": 19},
    }
    assert first["partialFingerprints"]["primaryLocationLineHash"] == fingerprinted(rich, lines)[0].fingerprint
    for rule in run["tool"]["driver"]["rules"]:
        for description in (rule["shortDescription"], rule["fullDescription"]):
            assert 0 < len(description["text"]) <= 1024
    rule = run["tool"]["driver"]["rules"][0]
    assert rule["help"]["markdown"] == catalogue()["DYN101"].documentation.strip()
    assert rule["properties"]["problem.severity"] == "error"
    assert first["message"]["text"].startswith("Branch on a tensor. Confirmed by torch 2.13.0 (GB0170). Reached from ")


def test_what_is_rarely_compiled_is_a_note_of_the_lowest_rank(make: Make) -> None:
    (result,) = sarif(Report([make(doubt="`train` steps an optimizer")]))["results"]
    assert (result["level"], result["rank"], result["properties"]["likelihood"]) == ("note", 0.0, "unlikely")


def test_precision_goes_by_verdict(make: Make) -> None:
    def precision(*findings: Finding) -> str:
        run = sarif(Report(findings, entries=catalogue()))
        text = run["tool"]["driver"]["rules"][0]["properties"]["precision"]
        assert isinstance(text, str)
        return text

    static, confirmed = make(), make(5, evidence=Evidence("confirmed"))
    assert precision(static) == "high"
    assert precision(static, confirmed) == "very-high"
    assert precision(make(evidence=Evidence("unreached"))) == "medium"
    assert precision(make(category="advice", severity="info")) == "medium"


def test_a_refuted_finding_has_passed(make: Make) -> None:
    (result,) = sarif(Report([make(evidence=Evidence("refuted", torch="2.13.0"))]))["results"]
    assert (result["kind"], result["level"], result["rank"]) == ("pass", "none", 0.0)


def test_the_chain_of_calls_is_a_code_flow(make: Make) -> None:
    steps = (Step("Model.forward", "a.py", 7), Step("helper", "lib/b.py", 2))
    (result,) = sarif(Report([make(path="lib/b.py", steps=steps)]))["results"]
    flow = [one["location"] for one in result["codeFlows"][0]["threadFlows"][0]["locations"]]
    places = [one["physicalLocation"] for one in flow]
    assert [(one["artifactLocation"]["uri"], one["region"]["startLine"]) for one in places] == [
        ("a.py", 7),
        ("lib/b.py", 2),
        ("lib/b.py", 3),
    ]
    assert [one["message"]["text"] for one in flow] == ["in Model.forward", "in helper", "Branch on a tensor"]
    assert result["relatedLocations"][0]["physicalLocation"] == places[1]
    assert "codeFlows" not in sarif(Report([make()]))["results"][0]


def test_fixes_are_changes_of_files(make: Make) -> None:
    edits = (Edit(3, 1, 4, 1, "new\n"), Edit(1, 1, 1, 1, "import torch\n", "other.py"))
    (result,) = sarif(Report([make(fix=Fix("Rewrite", "safe", edits=edits))]))["results"]
    (fix,) = result["fixes"]
    assert [change["artifactLocation"]["uri"] for change in fix["artifactChanges"]] == ["model.py", "other.py"]
    assert fix["artifactChanges"][0]["replacements"] == [
        {
            "deletedRegion": {"startLine": 3, "startColumn": 1, "endLine": 4, "endColumn": 1},
            "insertedContent": {"text": "new\n"},
        }
    ]
    declined = make(fix=Fix("No fix is offered", "suggestion", declined="it needs a person"))
    assert "fixes" not in sarif(Report([declined]))["results"][0]


def test_fingerprints_survive_edits(make: Make) -> None:
    def prints(text: str, *findings: Finding) -> list[str]:
        return [one.fingerprint for one in fingerprinted(findings, {"model.py": text.splitlines()})]

    before = prints("if x.sum() > 0:", make(1, 4, 15))
    after = prints("#\n#\n    if  x.sum()>0:", make(3, 9, 18))
    assert before == after
    assert before != prints("if x.sum() > 1:", make(1, 4, 15))
    twice = prints("print(x)\nprint(x)", make(1, 1, 9), make(2, 1, 9))
    assert len(set(twice)) == 2
    assert prints("print(x)", replace(make(1, 1, 9), function="f")) != prints("print(x)", make(1, 1, 9))
