"""The formats "json" and "json-lines"."""

from __future__ import annotations

import json
from collections.abc import Callable

from dynalint.findings import Finding
from dynalint.report import Report, Style, render


def test_json_is_one_array_of_findings(rich: list[Finding]) -> None:
    text = render("json", Report(rich), Style())
    assert json.loads(text) == [finding.to_json() for finding in rich]
    assert render("json", Report([]), Style()) == "[]\n"


def test_json_lines_is_one_finding_a_line(rich: list[Finding]) -> None:
    lines = render("json-lines", Report(rich), Style()).splitlines()
    assert [json.loads(line) for line in lines] == [finding.to_json() for finding in rich]
    assert render("json-lines", Report([]), Style()) == ""


def test_no_locale_can_change_a_byte(make: Callable[..., Finding]) -> None:
    finding = make(path="日本/\udcff.py", message="é → 1\u2028")
    for form in ("json", "json-lines"):
        text = render(form, Report([finding]), Style())
        assert text.isascii()
        record = json.loads(text)
        assert (record[0] if form == "json" else record)["path"] == "日本/\udcff.py"
