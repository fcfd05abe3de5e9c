"""The number of findings by rule and by graph break id, for `--statistics`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, TypeVar

from dynalint.findings import Finding
from dynalint.report.json import document
from dynalint.report.model import Report
from dynalint.report.style import Style, visible

Key = TypeVar("Key", bound=Hashable)
Row = dict[str, Any]


def render(report: Report, style: Style) -> str:
    """Return a table of counts by rule, and one by the graph break id that Dynamo reported, largest counts first.

    Both show how many findings there are, and how many of them are confirmed, can be fixed, or are in code that is
    rarely compiled.
    """
    return "\n".join(_table(rows, style) for rows in (_by_rule(report), _by_break(report)) if rows)


def render_json(report: Report) -> str:
    """Return the same counts as a JSON object with the arrays "rules" and "graph_breaks"."""
    return document({"rules": _by_rule(report), "graph_breaks": _by_break(report)})


def _by_rule(report: Report) -> list[Row]:
    pairs = (((finding.code, finding.name), finding) for finding in report.findings)
    return [{**counts, "code": code, "name": name} for (code, name), counts in _counted(pairs, report)]


def _by_break(report: Report) -> list[Row]:
    """Count findings by the id that Dynamo reported. Static findings can have more than one possible id."""
    pairs = ((finding.evidence.gb, finding) for finding in report.findings if finding.evidence.gb)
    return [{**counts, "gb": gb} for gb, counts in _counted(pairs, report)]


def _counted(pairs: Iterable[tuple[Key, Finding]], report: Report) -> Iterator[tuple[Key, Row]]:
    groups: dict[Any, list[Finding]] = defaultdict(list)
    for key, finding in pairs:
        groups[key].append(finding)
    for key, findings in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        yield (
            key,
            {
                "found": len(findings),
                "confirmed": sum(finding.evidence.status == "confirmed" for finding in findings),
                "fixable": sum(report.applies(finding) for finding in findings),
                "unlikely": sum(bool(finding.doubt) for finding in findings),
            },
        )


def _table(rows: list[Row], style: Style) -> str:
    widths = {key: max(len(key), *(len(str(row[key])) for row in rows)) for key in rows[0]}
    rows = [{key: visible(str(value)) for key, value in row.items()} for row in rows]
    titles = " ".join(style.paint(_pad(key, key, widths), "bold") for key in widths).rstrip()
    lines = [titles, *(" ".join(_pad(key, str(row[key]), widths) for key in widths).rstrip() for row in rows)]
    return "".join(f"{line}\n" for line in lines)


def _pad(key: str, text: str, widths: dict[str, int]) -> str:
    return text.ljust(widths[key]) if key in ("code", "name", "gb") else text.rjust(widths[key])
