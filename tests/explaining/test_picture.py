"""The picture's data: repeats folded, lines by graph."""

from __future__ import annotations

from dataclasses import replace

from dynalint.confirm.worker.dynamo.graph_records import Guards, Size
from dynalint.explaining.model import ExplainedBreak, ExplainedGraph, ExplainedStep, Explanation, Place, Source
from dynalint.explaining.picture import Repeat, excerpts, folded


def step(graph: int, ended_by: int | None = None, *, last: bool = False) -> ExplainedStep:
    return ExplainedStep(graph, Size(1, 4), ended_by, last)


def graph(number: int, lines: dict[str, tuple[int, ...]], call: int = 1) -> ExplainedGraph:
    size = Size()
    place = Place("m.py", 1)
    return ExplainedGraph(number, "f", place, False, call, (), lines, size, size, size, Guards({}, ()), None)


def at(line: int) -> ExplainedBreak:
    return ExplainedBreak(Place("m.py", line), "f", "", "GB0000", "kind", "", "", (), (), (), (), False, None)


def explanation(
    text: str, graphs: tuple[ExplainedGraph, ...], breaks: tuple[ExplainedBreak, ...], ran: set[int]
) -> Explanation:
    lines = tuple(text.splitlines())
    source = Source("m.py", lines, frozenset(ran), ((1, len(lines), "f"),))
    return Explanation(
        "m:f", "f()", "2.13.0", "3.11", "cpu", (6, 2), graphs, breaks, (), (), (), None, "", None,
        sources=(source,),
    )  # fmt: skip


def test_steps_that_differ_stay_as_they_are() -> None:
    steps = [step(1, 0), step(2, 1), step(3)]
    assert folded(steps) == steps
    assert folded([]) == []


def test_a_layer_that_repeats_is_one_item() -> None:
    steps = [step(1), *[step(2, 0), step(3)] * 12, step(4, last=True)]
    first, repeat, final = folded(steps)
    assert (first, final) == (steps[0], steps[-1])
    assert repeat == Repeat((step(2, 0), step(3)), 12)


def test_the_shortest_period_that_covers_the_most_wins() -> None:
    (repeat,) = folded([step(1)] * 8)
    assert isinstance(repeat, Repeat)
    assert (len(repeat.steps), repeat.times) == (1, 8)


def test_the_same_graphs_cut_by_different_breaks_are_no_repeat() -> None:
    steps = [step(1, 0), step(1, 1)]
    assert folded(steps) == steps


TEXT = """\
def f(x):
    a = x + 1
    # why

    b = a * 2
    if a.sum() > 0:
        b = b + 1

    while y:
        y -= 1
    return b"""


def test_lines_have_the_graphs_and_breaks_on_them() -> None:
    found = explanation(
        TEXT,
        (graph(1, {"m.py": (2, 5, 6)}), graph(2, {"m.py": (7, 11)}), graph(3, {"m.py": (2, 5)}, call=7)),
        (at(6),),
        {2, 5, 6, 7, 9, 10, 11},
    )
    (part,) = excerpts(found)
    assert [line.number for line in part.lines] == list(range(1, 12))
    lines = {line.number: line for line in part.lines}
    assert lines[2].graphs == (1,)
    # A comment and a blank line amid one graph belong to it, a blank line between a graph and none does not.
    assert lines[3].graphs == lines[4].graphs == (1,)
    assert lines[8].graphs == ()
    assert lines[6].breaks == (0,)
    assert [line.number for line in part.lines if line.eager] == [9, 10]


def test_a_line_that_a_break_divides_has_both_graphs() -> None:
    found = explanation("def f(x):\n    g(h(x))", (graph(1, {"m.py": (2,)}), graph(2, {"m.py": (2,)})), (at(2),), {2})
    (part,) = excerpts(found)
    assert part.lines[1].graphs == (1, 2)


def test_functions_that_nothing_touched_are_left_out() -> None:
    text = "def f(x):\n    return x\n\ndef unused(x):\n    return x\n\ndef g(x):\n    return x"
    found = explanation(text, (graph(1, {"m.py": (2, 8)}),), (), {2, 8})
    functions = ((1, 2, "f"), (4, 5, "unused"), (7, 8, "g"))
    found = replace(found, sources=(replace(found.sources[0], functions=functions),))
    assert [[line.number for line in part.lines] for part in excerpts(found)] == [[1, 2], [7, 8]]
