"""The format "html", a page with a project's findings by cost and by file, with verdicts, diffs and settings.

The page is self-contained and has no scripts. Text from the checked code is escaped, and the page's content security
policy keeps it from running or loading anything.
"""

from __future__ import annotations

import html
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from itertools import groupby

from dynalint.findings import STATUSES, Finding, Safety
from dynalint.report.excerpt import excerpt
from dynalint.report.full import notes
from dynalint.report.model import Report
from dynalint.report.offered_diffs import offered_diff
from dynalint.report.ranking import LEVELS, MEASURED, because, level_of, ranked
from dynalint.report.style import Style
from dynalint.report.summary import settings_that_help
from dynalint.report.web import document, escape, items, prose, tiles

_PLAIN = Style()
_REASONS = 12
"""The maximum number of reasons listed for a verdict. The page only says how many others there are."""
_GONE = 50
"""The maximum number of baseline entries listed as no longer found. The page only says how many others there are."""
_SAFETIES: tuple[Safety, ...] = ("safe", "conditional", "unsafe", "suggestion")
_ROWS = 6
"""The maximum number of links listed for a rule with diffs. The page only says how many others there are."""


def render(report: Report, style: Style) -> str:
    """Return the page."""
    css = (files("dynalint.report") / "html.css").read_text(encoding="utf-8")
    page = _Page(report)
    return document(f"dynalint: {page.headline}", "Skip to the findings", page.lines(), style=css)


class _Page:
    def __init__(self, report: Report) -> None:
        self._report = report
        self._found = report.findings
        self._anchors = {id(finding): f"finding-{number}" for number, finding in enumerate(report.findings, 1)}
        self._offers = [one for one in report.findings if one.fixable]
        self._settings = settings_that_help(report.findings)
        places = len({finding.path for finding in report.findings})
        self.headline = f"{_count(len(report.findings), 'finding')} in {_count(places, 'file')}"

    def lines(self) -> Iterator[str]:
        sections = [
            ("cost", "What to fix first", self._by_cost()),
            ("settings", "Settings that help", self._helping()),
            ("diffs", "Available fixes", self._diffs()),
            ("verdicts", "Verdicts", self._verdicts()),
            ("baseline", "Compared with the baseline", self._trend()),
            ("files", "By file", self._by_file()),
        ]
        shown = [(name, title, body) for name, title, parts in sections if (body := list(parts))]
        yield from self._header()
        if shown:
            links = items(f'<a href="#{name}">{title}</a>' for name, title, _ in shown)
            yield f'<nav class="contents" aria-label="Contents"><ul>{links}</ul></nav></header>'
        else:
            yield "</header>"
        yield '<main id="main">'
        for name, title, body in shown:
            yield f'<section aria-labelledby="{name}"><h2 id="{name}">{title}</h2>'
            yield from body
            yield "</section>"
        yield "</main><footer><p>This page was created by <code>dynalint check --output-format html</code>. "
        yield "It does not load anything or contain scripts.</p></footer>"

    def _header(self) -> Iterator[str]:
        report = self._report
        yield f'<header><p class="eyebrow">dynalint check</p><h1>{self.headline}</h1>'
        if report.ran_by:
            yield f'<p class="soft">Code was run by {escape(report.ran_by)}.</p>'
        for failure in report.failures:
            yield f"<p><strong>Not everything was checked.</strong> {escape(failure)}</p>"
        confirmed = sum(one.evidence.status == "confirmed" for one in self._found)
        known = len(report.compared.known) if report.compared is not None else 0
        figures = [
            ("Findings", len(self._found), "" if self._found else "good"),
            ("Confirmed by running the code", confirmed, "bad" if confirmed else ""),
            ("With a diff", len(self._offers), "good" if self._offers else ""),
            ("Refuted and hidden", report.refuted, ""),
            ("Hidden by the baseline", known, ""),
            ("Rarely compiled and hidden", report.folded, ""),
        ]
        yield from tiles(one for number, one in enumerate(figures) if one[1] or number < 3)

    def _by_cost(self) -> Iterator[str]:
        if not self._found:
            return
        yield f'<p class="soft">{escape(MEASURED)}</p><div class="stack">'
        for level, group in groupby(ranked(self._found), key=level_of):
            found = list(group)
            known = level < len(LEVELS) - 2
            yield f'<article class="box{" break" if known else ""}"><details{" open" if known else ""}>'
            yield f"<summary>{LEVELS[level].title}: {_count(len(found), 'finding')}</summary>"
            yield f"<p>{prose(LEVELS[level].why)}</p><ol>"
            yield items(f"{self._link(one)} {_badge(one)} {self._reason(one)}" for one in found)
            yield "</ol></details></article>"
        yield "</div>"

    def _reason(self, finding: Finding) -> str:
        why = because(finding)
        return f'{prose(finding.message)}<br><span class="soft">{prose(why)}</span>' if why else prose(finding.message)

    def _link(self, finding: Finding) -> str:
        place = f"{escape(finding.place)}:{finding.line}:{finding.column}"
        return f'<a href="#{self._anchors[id(finding)]}"><code>{place}</code></a>'

    def _helping(self) -> Iterator[str]:
        if not self._settings:
            return
        yield '<div class="stack">'
        for how, found in self._settings:
            codes = ", ".join(sorted({one.code for one in found}))
            ran = sum(one.evidence.status == "confirmed" for one in found)
            if any(one.setting for one in found):
                seen = f"{ran} of them broke the graph without it. " if ran else ""
                seen = f"Dynamo is known to do this, but it was not tried out here. {seen}"
                seen += "To write this setting, run `dynalint fix --settings`."
            else:
                seen = "This was found by running the code."
            yield f'<article class="box done"><p><strong>{prose(how)} {len(found)} of {len(self._found)} '
            yield f"unchanged</strong> ({escape(codes)}). {prose(seen)}</p></article>"
        yield "</div>"

    def _diffs(self) -> Iterator[str]:
        if not self._offers:
            return
        yield "<p>Each finding below shows its diff. <code>dynalint fix --apply</code> applies the safe fixes, and the "
        yield "fixes whose conditions a run has confirmed. <code>--unsafe-fixes</code> also applies unsafe fixes.</p>"
        by_rule: dict[str, list[Finding]] = defaultdict(list)
        for one in self._offers:
            by_rule[one.code].append(one)
        rows: list[list[object]] = []
        for code, found in sorted(by_rule.items(), key=lambda item: (-len(item[1]), item[0])):
            counts = Counter(one.fix.safety for one in found if one.fix is not None)
            more = f" and {len(found) - _ROWS} more" if len(found) > _ROWS else ""
            links = ", ".join(map(self._link, found[:_ROWS])) + more
            rows.append([self._rule(code), *(counts[kind] for kind in _SAFETIES), links])
        heads = ["Rule", *(kind.capitalize() for kind in _SAFETIES), "Findings"]
        yield from _table("Diffs by rule", heads, rows, texts=(0, len(heads) - 1))

    def _rule(self, code: str) -> str:
        entry = self._report.entries.get(code)
        return escape(code if entry is None else f"{code} {entry.name}")

    def _code(self, finding: Finding) -> str:
        linked = finding.url.startswith("https://")
        return f'<a href="{escape(finding.url)}">{finding.code}</a>' if linked else escape(finding.code)

    def _verdicts(self) -> Iterator[str]:
        if not self._found:
            return
        groups: dict[str, Counter[str]] = defaultdict(Counter)
        for one in self._found:
            observed = " ".join(part for part in (one.evidence.gb, one.evidence.detail) if part)
            groups[one.evidence.status][observed or "The code was not run."] += 1
        rows: list[list[object]] = []
        for status in STATUSES:
            reasons = sorted(groups[status].items(), key=lambda item: (-item[1], item[0]))
            rows += [[status, number, prose(reason)] for reason, number in reasons[:_REASONS]]
            if left := sum(number for _, number in reasons[_REASONS:]):
                rows.append([status, left, f"{len(reasons) - _REASONS} other reasons"])
        if self._report.refuted:
            traced = "Dynamo traced the code without a graph break. To see these findings, pass --show-refuted."
            rows.append(["refuted", self._report.refuted, traced])
        totals = (f"{groups[status].total():,} {status}" for status in STATUSES if groups[status])
        yield f"<p>The findings on this page are: {', '.join(totals)}.</p>"
        yield from _table("Verdicts and their reasons", ["Verdict", "Findings", "Reason"], rows, texts=(0, 2))

    def _trend(self) -> Iterator[str]:
        compared = self._report.compared
        if compared is None:
            return
        new, known, gone = (Counter(one.code for one in some) for some in (compared.new, compared.known, compared.gone))
        codes = sorted({*new, *known, *gone}, key=lambda code: (-new[code], -gone[code], code))
        columns = (known + gone, known + new, new, gone)
        rows: list[list[object]] = [[self._rule(code), *(column[code] for column in columns)] for code in codes]
        rows.append(["All", *(column.total() for column in columns)])
        yield from _table(
            "Findings by rule, compared with the baseline", ["Rule", "Baseline", "Now", "New", "Gone"], rows
        )
        if compared.gone:
            left = len(compared.gone) - _GONE
            listed = [f"{escape(one.code)} <code>{escape(one.path)}</code>" for one in compared.gone[:_GONE]]
            yield f"<details><summary>{_count(len(compared.gone), 'finding')} no longer found</summary><ul>"
            yield f"{items([*listed, *([f'and {left} more'] if left > 0 else [])])}</ul></details>"

    def _by_file(self) -> Iterator[str]:
        groups = {path: list(group) for path, group in groupby(self._found, key=lambda one: one.path)}
        if not groups:
            return
        rows: list[list[object]] = []
        for number, (path, found) in enumerate(groups.items(), 1):
            rows.append(
                [
                    f'<a href="#file-{number}"><code>{escape(path)}</code></a>',
                    len(found),
                    sum(one.evidence.status == "confirmed" for one in found),
                    sum(one.fixable for one in found),
                    LEVELS[min(map(level_of, found))].title,
                ]
            )
        yield from _table(
            "Findings by file", ["File", "Findings", "Confirmed", "With a diff", "Costs most"], rows, (0, 4)
        )
        for number, (path, found) in enumerate(groups.items(), 1):
            yield f'<h3 class="file mono" id="file-{number}">{escape(path)}</h3><div class="stack">'
            for finding in found:
                yield from self._finding(finding)
            yield "</div>"

    def _finding(self, finding: Finding) -> Iterator[str]:
        yield f'<article class="box finding" id="{self._anchors[id(finding)]}"><div class="head">{_badge(finding)}'
        yield f"<h4>{self._code(finding)} {prose(finding.message)}</h4></div>"
        yield f'<p class="soft"><code>{escape(finding.place)}:{finding.line}:{finding.column}</code></p>'
        _, shown = excerpt(finding, self._report.lines.get(finding.place, ()), _PLAIN)
        if shown:
            yield f"<pre>{chr(10).join(map(html.escape, shown[1:-1]))}</pre>"
        yield '<dl class="notes">'
        if why := because(finding):
            yield f"<dt>cost:</dt><dd>{prose(why)}</dd>"
        for label, text in notes(finding, None):
            yield f"<dt>{escape(label.strip())}</dt><dd>{prose(text.removeprefix(': '))}</dd>"
        yield "</dl>"
        if finding.fixable:
            yield from self._diff(finding)
        yield "</article>"

    def _diff(self, finding: Finding) -> Iterator[str]:
        yield "<details><summary>Diff</summary>"
        for place, lines in offered_diff(finding, self._report.lines):
            yield f'<p class="soft"><code>{escape(place)}</code>{"" if lines else " also changes"}</p>'
            if lines:
                looks = {"-": "gone", "+": "new"}
                spans = (f'<span class="{looks.get(one[:1], "")}">{escape(one)}</span>' for one in lines)
                yield f'<pre class="diff">{"".join(spans)}</pre>'
        yield "</details>"


def _badge(finding: Finding) -> str:
    status = finding.evidence.status
    return "" if status == "static" else f'<span class="badge {status}">{status}</span>'


def _table(
    name: str, heads: Sequence[str], rows: Iterable[Sequence[object]], texts: Sequence[int] = (0,)
) -> Iterator[str]:
    """Yield a table of numbers or HTML, named by its first column. `texts` are the indices of columns with text."""
    yield f'<div class="wide" tabindex="0" role="region" aria-label="{name}"><table><thead><tr>'
    yield "".join(f'<th scope="col"{_look("" if at in texts else 1)}>{head}</th>' for at, head in enumerate(heads))
    yield "</tr></thead><tbody>"
    for first, *others in rows:
        cells = "".join(f"<td{_look(one)}>{one}</td>" for one in others)
        yield f'<tr><th scope="row" class="text">{first}</th>{cells}</tr>'
    yield "</tbody></table></div>"


def _look(cell: object) -> str:
    return "" if cell and isinstance(cell, int) else f' class="{"soft" if cell == 0 else "text"}"'


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
