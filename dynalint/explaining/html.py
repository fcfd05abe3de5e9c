"""Render an explanation as a self-contained HTML page. It needs no network or fonts, and runs only its own script."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from importlib.resources import files

from dynalint.explaining import words
from dynalint.explaining.model import ExplainedBreak, ExplainedGraph, ExplainedRecompile, ExplainedStep, Explanation
from dynalint.explaining.picture import Excerpt, Line, Repeat, excerpts, folded
from dynalint.report.style import cells
from dynalint.report.web import document, escape, items, prose, tiles

_COLOURS = 8
_LOOKS = {True: "good", False: "bad", None: ""}


def render(found: Explanation) -> str:
    """Return the HTML page for an explanation."""
    page = files("dynalint.explaining") / "page"
    style, script = ((page / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    title = f"{found.target}: {words.headline(found)}"
    return document(title, "Skip to the picture", _Page(found).lines(), style=style, script=script)


class _Page:
    def __init__(self, found: Explanation) -> None:
        self._found = found
        self._largest = max((graph.size for graph in found.graphs), default=1) or 1
        self._excerpts = excerpts(found)
        self._text = {source.path: source.lines for source in found.sources}
        # Links can point to the lines that are shown and to the graphs that have a card.
        self._lines = {
            (part.path, line.number): f"line-{at}-{line.number}" for at, part in self._parts() for line in part.lines
        }
        self._cards: set[int] = set()

    def _parts(self) -> Iterator[tuple[int, Excerpt]]:
        paths = list(dict.fromkeys(part.path for part in self._excerpts))
        for part in self._excerpts:
            yield paths.index(part.path), part

    def lines(self) -> Iterator[str]:
        flow = list(self._flow())
        yield from self._header()
        yield '<main id="main">'
        yield '<h2 id="picture">Source and graphs</h2><div class="picture"><section aria-label="Source">'
        yield from self._source()
        yield '</section><section aria-label="Graphs in the order in which one call runs them">'
        yield from flow
        yield "</section></div>"
        yield from self._breaks()
        yield from self._advice()
        yield from self._recompiles()
        yield from self._eager()
        yield "</main>"
        yield from self._footer()

    def _header(self) -> Iterator[str]:
        found = self._found
        yield '<header><p class="eyebrow">dynalint explain</p>'
        yield f'<h1 class="mono">{escape(found.target)}</h1>'
        yield f"<p>{escape(found.inputs)}</p>"
        yield f'<p class="soft">{escape(words.basis(found))}</p>'
        for note in (*([f"The compiled code failed: {found.error}"] if found.error else []), *found.notes):
            yield f"<p><strong>Note.</strong> {escape(note)}</p>"
        figures = [
            ("Graphs in one call", len(found.first_graphs), ""),
            ("Graph breaks", len(found.causes), "bad" if found.causes else "good"),
            ("Recompiles", len(found.recompiles), ""),
            ("Operators in graphs", sum(graph.size for graph in found.first_graphs), ""),
            ("fullgraph=True", words.verdict(found.fullgraph), _LOOKS[found.fullgraph]),
        ]
        yield from tiles(figures)
        if found.fullgraph_error:
            yield f'<p class="soft">fullgraph=True: {prose(found.fullgraph_error)}</p>'
        yield "</header>"

    def _source(self) -> Iterator[str]:
        if not self._excerpts:
            yield '<p class="soft">None of your own code was traced.</p>'
            return
        yield '<div class="scroll" tabindex="0" role="region" aria-label="Source, coloured by graph">'
        path = ""
        for number, part in self._parts():
            if part.path != path:
                yield f'{"</table>" if path else ""}<div class="file mono">{escape(part.path)}</div>'
                yield f'<table class="source mono"><caption hidden>{escape(part.path)}</caption>'
            else:
                yield '<tr class="gap"><td colspan="3">&#8943;</td></tr>'
            path = part.path
            for line in part.lines:
                yield from self._line(number, line)
        yield "</table></div>"
        yield '<ul class="legend"><li><i class="c0"></i>a graph, by its number</li>'
        yield "<li>dotted: ran, but is not in a graph</li><li>red: the graph breaks here</li></ul>"

    def _line(self, file: int, line: Line) -> Iterator[str]:
        colour = f"c{_colour(line.graphs[0])}" if line.graphs else "eager" if line.eager else ""
        data = f' data-g="{" ".join(map(str, line.graphs))}"' if line.graphs else ""
        marked = line.graphs if line.text.strip() and not line.text.strip().startswith("#") else ()
        badges = " ".join(map(self._badge, marked[:3])) + (f" +{len(marked) - 3}" if len(marked) > 3 else "")
        yield f'<tr id="line-{file}-{line.number}" class="{colour}"{data}><td class="n">{line.number}</td>'
        yield f'<td class="g">{badges}</td><td class="t">{self._code(line)}</td></tr>'
        for index in line.breaks:
            number, kind = index + 1, prose(words.what(self._found.breaks[index]))
            mark = f'<a class="badge stop" href="#break-{number}" aria-label="Break {number}">{number}</a>'
            yield f'<tr class="note"><td class="n"></td><td class="g"></td><td class="t">{mark} {kind}</td></tr>'

    def _code(self, line: Line) -> str:
        """Return the line's text with the code that breaks underlined."""
        text = line.text or " "
        shown = cells(text)
        if not line.breaks:
            return html.escape("".join(shown))
        place = self._found.breaks[line.breaks[0]].place
        start, end = place.column - 1, place.end_column - 1
        if not 0 <= start < end <= len(text):
            start, end = len(text) - len(text.lstrip()), len(text.rstrip())
        before, marked, after = (html.escape("".join(part)) for part in (shown[:start], shown[start:end], shown[end:]))
        return f"{before}<u>{marked}</u>{after}"

    def _badge(self, graph: int) -> str:
        if graph not in self._cards:
            return f'<span class="badge c{_colour(graph)}">{graph}</span>'
        return f'<a class="badge c{_colour(graph)}" href="#graph-{graph}" aria-label="Graph {graph}">{graph}</a>'

    def _flow(self) -> Iterator[str]:
        found = self._found
        if not found.graphs:
            yield '<p class="box">Dynamo compiled no graphs, so everything ran in Python.</p>'
            return
        yield '<ol class="flow">'
        if found.steps:
            for item in folded(found.steps):
                yield from self._item(item)
        else:
            for graph in found.first_graphs:
                yield f"<li>{''.join(self._card(graph))}</li>"
        yield "</ol>"
        later = [graph for graph in found.graphs if graph.number not in self._cards]
        if later:
            yield f"<details><summary>{words.count(len(later), 'graph')} compiled for other calls</summary>"
            yield '<ol class="flow">'
            for graph in later:
                yield f"<li>{''.join(self._card(graph))}</li>"
            yield "</ol></details>"

    def _item(self, item: ExplainedStep | Repeat) -> Iterator[str]:
        if isinstance(item, Repeat):
            yield f'<li class="round"><p>{item.times} times</p><ol>'
            for step in item.steps:
                yield from self._item(step)
            yield "</ol></li>"
            return
        graph = self._found.graphs[item.graph - 1]
        yield f"<li>{''.join(self._card(graph))}</li>"
        if not item.last:
            yield self._cut(graph, item)

    def _cut(self, graph: ExplainedGraph, step: ExplainedStep) -> str:
        if step.ended_by is None:
            return f'<li class="link">end of <code>{escape(graph.function)}</code>: {words.cost(step)}</li>'
        found = self._found.breaks[step.ended_by]
        number = step.ended_by + 1
        where = f'<a href="#break-{number}">Break {number}</a> at {self._linked(found.place.path, found.place.line)}'
        return f'<li class="link broken"><b>{where}</b><br>{words.cost(step)}</li>'

    def _linked(self, path: str, line: int) -> str:
        text = f"<code>{escape(path)}:{line}</code>"
        anchor = self._lines.get((path, line))
        return f'<a href="#{anchor}">{text}</a>' if anchor else text

    def _card(self, graph: ExplainedGraph) -> Iterator[str]:
        again = graph.number in self._cards
        self._cards.add(graph.number)
        name = "" if again else f' id="graph-{graph.number}"'
        yield f'<article class="card c{_colour(graph.number)}" data-graph="{graph.number}"{name} tabindex="0" '
        yield f'aria-label="Graph {graph.number}, {words.count(graph.size, "operator")}">'
        origin = "continues" if graph.resumes else "begins"
        yield f'<div class="head"><span class="badge">{graph.number}</span>'
        yield f'<h3 class="mono">{escape(graph.function)}</h3>'
        yield f'<span class="where">{origin} {self._linked(graph.place.path, graph.place.line)}</span></div>'
        yield f'<p class="facts">{words.count(graph.size, "operator")}</p>'
        yield f'<div class="bar" aria-hidden="true"><i style="width:{100 * graph.size / self._largest:.1f}%"></i></div>'
        if not again:
            yield from self._details(graph)
        yield "</article>"

    def _details(self, graph: ExplainedGraph) -> Iterator[str]:
        sizes = [("parameters and buffers", graph.parameters), ("inputs", graph.inputs), ("outputs", graph.outputs)]
        yield "<details><summary>Operators and guards</summary>"
        yield f"<p>{'; '.join(f'{name}: {words.size(size)}' for name, size in sizes)}</p>"
        operators = (
            f"<code>{escape(one.name)}</code>{f' &times;{one.count}' if one.count > 1 else ''}"
            f"{f' <span class=soft>line {one.place.line}</span>' if one.place else ''}"
            for one in graph.operators
        )
        yield f'<ul class="ops">{items(operators)}</ul>'
        if graph.replaces:
            yield f"<p>Compiled because a guard of an earlier one failed: <code>{escape(graph.replaces)}</code></p>"
        kinds = ", ".join(f"{number} {kind}" for kind, number in graph.guards.kinds.items())
        yield f"<p>{words.count(sum(graph.guards.kinds.values()), 'guard')}: {escape(kinds)}</p>"
        conditions = (f"<code>{escape(condition)}</code>" for condition in graph.guards.conditions)
        yield f"<ul>{items(conditions)}</ul></details>"

    def _breaks(self) -> Iterator[str]:
        if not self._found.breaks:
            return
        yield '<h2 id="breaks">Breaks</h2><div class="stack">'
        for number, one in enumerate(self._found.breaks, 1):
            yield from self._break(number, one)
        yield "</div>"

    def _break(self, number: int, one: ExplainedBreak) -> Iterator[str]:
        yield f'<article class="box break" id="break-{number}">'
        yield f'<div class="head"><span class="badge stop">{number}</span>'
        yield f"<h3>{prose(words.what(one))}</h3></div>"
        inside = f", in <code>{escape(one.inside)}</code>, called from here" if one.inside else ""
        where = self._linked(one.place.path, one.place.line)
        yield f'<p class="soft">{where} in <code>{escape(one.function)}</code>{inside}</p>'
        lines = self._text.get(one.place.path, ())
        if 0 < one.place.line <= len(lines):
            yield f"<pre>{escape(lines[one.place.line - 1].strip())}</pre>"
        yield f"<p>{prose(one.explanation or one.reason)}</p>"
        if one.consequence:
            yield "<p>A consequence of another break in the same function.</p>"
        if effect := words.effect(one):
            yield f"<p>{escape(effect)}</p>"
        for hint in words.hints(one):
            yield f'<p><span class="soft">Hint.</span> {prose(hint)}</p>'
        if one.rule is not None:
            yield f"<p><strong>{one.rule.code} {escape(one.rule.name)}.</strong> {prose(words.remedy(one.rule))}</p>"
        yield "</article>"

    def _recompiles(self) -> Iterator[str]:
        if not self._found.recompiles:
            return
        yield '<h2 id="recompiles">Recompiles</h2><div class="stack">'
        for call in dict.fromkeys(one.call for one in self._found.recompiles):
            alike = [one for one in self._found.recompiles if one.call == call]
            when = "another batch size" if alike[0].batch else "the same inputs"
            listed = items(map(self._recompile, alike))
            yield f'<article class="box"><h3>Call {call}, with {when}</h3><ul>{listed}</ul></article>'
        yield "</div>"

    def _recompile(self, one: ExplainedRecompile) -> str:
        guard = escape(" ".join(one.guard.split()))
        return f"<code>{escape(one.function)}</code> {self._linked(one.place.path, one.place.line)}: {guard}"

    def _eager(self) -> Iterator[str]:
        if not self._found.eager:
            return
        yield '<h2 id="eager">Not in a graph</h2><div class="stack">'
        for one in self._found.eager:
            where = self._linked(one.place.path, one.place.line)
            yield f'<article class="box"><h3 class="mono">{escape(one.function)}</h3>'
            yield f"<p>{where}: {prose(one.reason)}</p></article>"
        yield "</div>"

    def _advice(self) -> Iterator[str]:
        advice = self._found.advice
        if advice is None:
            return
        yield '<h2 id="advice">What would help</h2><div class="stack">'
        if not advice.remedies:
            yield f'<p class="box">{escape(words.no_help(advice))}</p>'
        for remedy in advice.remedies:
            yield f'<article class="box done"><h3>{words.remedy_title(remedy)}</h3>'
            yield f"<pre>{chr(10).join(map(escape, remedy.tried.lines))}</pre>"
            yield from _measured(words.counted(advice.before, remedy.tried.outcome))
            yield f"<p>{prose(words.equality(remedy))} {prose(remedy.note)}</p></article>"
        yield "</div>"
        for sentence in words.others(advice):
            yield f'<p class="soft">{escape(sentence)}</p>'
        if advice.cut_short:
            yield f'<p class="soft">{prose(words.CUT_SHORT)}</p>'

    def _footer(self) -> Iterator[str]:
        yield "<footer><p>All figures were measured by running the code; none are estimated. Bytes crossing a cut"
        yield "belong to tensors that one graph produces and a later graph uses. Values that only Python reads"
        yield "are not counted."
        yield "</p></footer>"


def _measured(counted: Iterable[tuple[str, int, int]]) -> Iterator[str]:
    """Yield a table with the counts before and after a remedy."""
    yield '<table class="measured"><tr><td></td><th scope="col">before</th><th scope="col">after</th></tr>'
    for name, before, after in counted:
        yield f'<tr><th scope="row">{name}</th><td>{before}</td><td>{after}</td></tr>'
    yield "</table>"


def _colour(graph: int) -> int:
    return (graph - 1) % _COLOURS
