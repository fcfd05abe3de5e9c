"""Render explanations as text for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from dynalint.explaining import words
from dynalint.explaining.model import ExplainedBreak, ExplainedGraph, ExplainedStep, Explanation
from dynalint.explaining.picture import Repeat, folded
from dynalint.report.excerpt import WIDEST
from dynalint.report.style import Style, visible

_OPERATORS = 8
_CONDITIONS = 6


def render(found: Explanation, style: Style, *, verbose: bool = False) -> str:
    """Return the explanation as text. If `verbose` is true, include all operators and guards."""
    return "\n".join(_Writer(found, style, verbose=verbose).lines()) + "\n"


def brief(found: Explanation, style: Style) -> str:
    """Return the headline, followed by a line for each break and for each function outside all graphs."""
    lines = [f"{style.paint(visible(found.target), 'bold')}: {words.headline(found)}"]
    for one in found.breaks:
        rule = f"{one.rule.code} {one.rule.name}" if one.rule is not None else words.what(one)
        lines.append(f"  {visible(str(one.place))} in {visible(one.function)}: {visible(rule)}")
    lines += [f"  {visible(f'{one.place} in {one.function}, not in a graph: {one.reason}')}" for one in found.eager]
    return "\n".join(lines) + "\n"


class _Writer:
    def __init__(self, found: Explanation, style: Style, *, verbose: bool) -> None:
        self._found = found
        self._style = style
        self._verbose = verbose
        self._text = {source.path: source.lines for source in found.sources}

    def lines(self) -> Iterator[str]:
        found, style = self._found, self._style
        yield f"{style.paint(visible(found.target), 'bold')}: {words.headline(found)}"
        yield from self._wrapped(f"{visible(found.inputs)}", 2)
        yield from self._wrapped(visible(words.basis(found)), 2)
        reason = f": {visible(found.fullgraph_error)}" if found.fullgraph_error else ""
        yield from self._wrapped(f"fullgraph=True {words.verdict(found.fullgraph)}{reason}", 2)
        if found.error is not None:
            yield from self._wrapped(f"The compiled code failed: {visible(found.error)}", 2)
        for note in found.notes:
            yield from self._wrapped(f"Note: {visible(note)}", 2)
        yield from self._graphs()
        yield from self._breaks()
        yield from self._recompiles()
        yield from self._eager()
        yield from self._advice()

    def _title(self, text: str) -> Iterator[str]:
        yield ""
        yield self._style.paint(text, "bold")

    def _wrapped(self, text: str, indent: int, hanging: int = 0) -> Iterator[str]:
        yield from textwrap.wrap(
            text,
            WIDEST,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + hanging),
            break_long_words=False,
            break_on_hyphens=False,
        )

    def _graphs(self) -> Iterator[str]:
        found = self._found
        if not found.graphs:
            return
        yield from self._title("One call" if found.steps else "Graphs")
        if not found.steps:
            for graph in found.first_graphs:
                yield from self._graph(graph)
        else:
            shown: set[int] = set()
            for item in folded(found.steps):
                yield from self._item(item, shown)
        again = [graph for graph in found.graphs if graph.call > 1]
        if again:
            listed = ", ".join(f"{graph.number} (call {graph.call})" for graph in again)
            yield from self._wrapped(f"Compiled later: graph {listed}.", 2)

    def _item(self, item: ExplainedStep | Repeat, shown: set[int]) -> Iterator[str]:
        if isinstance(item, Repeat):
            yield f"  {self._style.paint(f'{item.times} times:', 'bold')}"
            for step in item.steps:
                yield from self._step(step, shown)
            return
        yield from self._step(item, shown)

    def _step(self, step: ExplainedStep, shown: set[int]) -> Iterator[str]:
        graph = self._found.graphs[step.graph - 1]
        yield from self._graph(graph, brief=step.graph in shown)
        shown.add(step.graph)
        if step.last:
            return
        if step.ended_by is None:
            cause = f"end of {graph.function}"
        else:
            cut = self._found.breaks[step.ended_by]
            cause = f"break {step.ended_by + 1} at {cut.place}"
        mark = self._style.paint("/", "red", "bold")
        yield from self._wrapped(f"{mark} {visible(cause)}: {words.cost(step)}", 4, 2)

    def _graph(self, graph: ExplainedGraph, *, brief: bool = False) -> Iterator[str]:
        head = self._style.paint(f"{graph.number:>3}", "cyan", "bold")
        where = f"{graph.function} ({'from ' if graph.resumes else ''}{graph.place})"
        yield f"{head}  {visible(where)}: {words.count(graph.size, 'operator')}"
        if brief:
            return
        names = [f"{one.name} x{one.count}" if one.count > 1 else one.name for one in graph.operators]
        if len(names) > _OPERATORS and not self._verbose:
            names = [*names[:_OPERATORS], f"and {len(names) - _OPERATORS} more"]
        yield from self._wrapped(visible(", ".join(names)), 5)
        parameters = f"parameters {words.size(graph.parameters)}; " if graph.parameters.tensors else ""
        yield from self._wrapped(f"{parameters}in {words.size(graph.inputs)}; out {words.size(graph.outputs)}", 5)
        yield from self._guards(graph)

    def _guards(self, graph: ExplainedGraph) -> Iterator[str]:
        conditions = graph.guards.conditions
        total = sum(graph.guards.kinds.values())
        shown = conditions if self._verbose else conditions[:_CONDITIONS]
        yield from self._wrapped(f"{words.count(total, 'guard')}{', including' if shown else ''}", 5)
        for condition in shown:
            yield from self._wrapped(visible(condition), 7, 2)
        if len(conditions) > len(shown):
            yield f"       and {len(conditions) - len(shown)} more (-v)"

    def _breaks(self) -> Iterator[str]:
        if not self._found.breaks:
            return
        yield from self._title("Breaks")
        for number, one in enumerate(self._found.breaks, 1):
            yield from self._break(number, one)

    def _break(self, number: int, one: ExplainedBreak) -> Iterator[str]:
        head = self._style.paint(f"{number:>3}", "red", "bold")
        inside = f", in {one.inside}, called from here" if one.inside else ""
        yield f"{head}  {visible(str(one.place))} in {visible(one.function)}{visible(inside)}"
        lines = self._text.get(one.place.path, ())
        if 0 < one.place.line <= len(lines):
            yield f"       {visible(lines[one.place.line - 1].strip())}"
        yield from self._wrapped(f"{visible(words.what(one))}: {visible(one.explanation or one.reason)}", 5, 2)
        if one.consequence:
            yield from self._wrapped("A consequence of another break in the same function.", 5, 2)
        if effect := words.effect(one):
            yield from self._wrapped(visible(effect), 5, 2)
        for hint in words.hints(one):
            yield from self._wrapped(f"Hint: {visible(hint)}", 5, 2)
        if one.rule is not None:
            rule = f"{one.rule.code} {one.rule.name}: {words.remedy(one.rule)}"
            yield from self._wrapped(visible(rule), 5, 2)

    def _recompiles(self) -> Iterator[str]:
        if not self._found.recompiles:
            return
        yield from self._title("Recompiles")
        for one in self._found.recompiles:
            when = "another batch size" if one.batch else "the same inputs"
            yield f"  call {one.call} ({when}): {visible(one.function)} ({visible(str(one.place))})"
            yield from self._wrapped(visible(" ".join(one.guard.split())), 7)

    def _eager(self) -> Iterator[str]:
        if not self._found.eager:
            return
        yield from self._title("Not in a graph")
        for one in self._found.eager:
            yield from self._wrapped(visible(f"{one.function} ({one.place}): {one.reason}"), 2, 2)

    def _advice(self) -> Iterator[str]:
        advice = self._found.advice
        if advice is None:
            return
        yield from self._title("What would help")
        if not advice.remedies:
            yield from self._wrapped(visible(words.no_help(advice)), 2)
        for remedy in advice.remedies:
            yield from self._wrapped(words.remedy_title(remedy), 2)
            yield from (f"       {visible(line)}" for line in remedy.tried.lines)
            pairs = words.counted(advice.before, remedy.tried.outcome)
            yield from self._wrapped("; ".join(f"{name} {one} to {other}" for name, one, other in pairs), 5)
            yield from self._wrapped(visible(words.equality(remedy)), 5)
            if remedy.note:
                yield from self._wrapped(visible(remedy.note), 5)
        for sentence in words.others(advice):
            yield from self._wrapped(visible(sentence), 2)
        if advice.cut_short:
            yield from self._wrapped(words.CUT_SHORT, 2)
