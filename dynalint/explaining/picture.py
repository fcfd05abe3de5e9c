"""Prepare an explanation for drawing: fold repeated steps, and find the lines and graphs to show side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynalint.explaining.model import ExplainedStep, Explanation, Source

_LONGEST_PERIOD = 12
_CONTEXT = 2


@dataclass(frozen=True)
class Repeat:
    """A sequence of steps that is repeated `times` times in a row."""

    steps: tuple[ExplainedStep, ...]
    times: int


def folded(steps: Sequence[ExplainedStep]) -> list[ExplainedStep | Repeat]:
    """Return the steps with each repeated sequence of graphs folded into a single item."""
    items: list[ExplainedStep | Repeat] = []
    at = 0
    while at < len(steps):
        period, times = _longest_repeat(steps, at)
        if times > 1:
            items.append(Repeat(tuple(steps[at : at + period]), times))
            at += period * times
        else:
            items.append(steps[at])
            at += 1
    return items


def _longest_repeat(steps: Sequence[ExplainedStep], at: int) -> tuple[int, int]:
    """Return the period and count of the repetition that covers the most steps from `at`. Shorter periods win ties."""
    graphs = [(step.graph, step.ended_by) for step in steps]
    best = (1, 1)
    for period in range(1, min(_LONGEST_PERIOD, (len(steps) - at) // 2) + 1):
        pattern = graphs[at : at + period]
        times = 1
        while graphs[at + period * times : at + period * (times + 1)] == pattern:
            times += 1
        if times > 1 and period * times > best[0] * best[1]:
            best = (period, times)
    return best


@dataclass(frozen=True)
class Line:
    """A source line, with the numbers of the graphs that contain it and the indices of the breaks on it.

    If `eager` is true, the line ran but is not in a graph.
    """

    number: int
    text: str
    graphs: tuple[int, ...]
    breaks: tuple[int, ...]
    eager: bool


@dataclass(frozen=True)
class Excerpt:
    """Consecutive lines in a file, usually a function."""

    path: str
    lines: tuple[Line, ...]


def excerpts(found: Explanation) -> list[Excerpt]:
    """Return the functions that Dynamo traced or broke in, file by file. Each line has its graphs and breaks."""
    # A graph that replaces another graph would only repeat its lines.
    first = {graph.number for graph in found.first_graphs}
    return [part for source in found.sources for part in _of_file(found, source, first)]


def _of_file(found: Explanation, source: Source, first: set[int]) -> list[Excerpt]:
    graphs: dict[int, list[int]] = {}
    for graph in found.graphs:
        for number in graph.lines.get(source.path, ()) if graph.number in first else ():
            graphs.setdefault(number, []).append(graph.number)
    breaks: dict[int, list[int]] = {}
    for index, one in enumerate(found.breaks):
        if one.place.path == source.path:
            breaks.setdefault(one.place.line, []).append(index)
    touched = sorted({*graphs, *breaks, *source.ran})
    shown: set[int] = set()
    for number in touched:
        around = [(last - start, start, last) for start, last, _ in source.functions if start <= number <= last]
        _, start, last = max(around) if around else (0, number - _CONTEXT, number + _CONTEXT)
        shown.update(range(max(start, 1), min(last, len(source.lines)) + 1))
    parts: list[list[Line]] = []
    for number in sorted(shown):
        own = graphs.get(number) or _between(number, graphs, source.lines)
        eager = number in source.ran and not own
        line = Line(number, source.lines[number - 1], tuple(own), tuple(breaks.get(number, ())), eager)
        if parts and parts[-1][-1].number >= number - 1:
            parts[-1].append(line)
        else:
            parts.append([line])
    return [Excerpt(source.path, tuple(part)) for part in parts]


def _between(number: int, graphs: dict[int, list[int]], lines: Sequence[str]) -> list[int]:
    """Return the graphs that contain both neighbours of a blank line or comment. Other lines have none."""
    text = lines[number - 1].strip()
    if text and not text.startswith("#"):
        return []

    def neighbour(step: int) -> list[int]:
        at = number + step
        while 0 < at <= len(lines) and (not lines[at - 1].strip() or lines[at - 1].strip().startswith("#")):
            at += step
        return graphs.get(at, [])

    after = neighbour(1)
    return [graph for graph in neighbour(-1) if graph in after]
