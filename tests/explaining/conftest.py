"""A project to explain, and explanations made by hand."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dynalint.config import Configuration, Overrides, parse_layer
from dynalint.confirm.worker.dynamo.graph_records import Guards, Size
from dynalint.explaining import Explanation, explain, find_targets
from dynalint.explaining.model import (
    Eager,
    ExplainedBreak,
    ExplainedGraph,
    ExplainedRecompile,
    ExplainedStep,
    Operator,
    OwnFinding,
    Place,
    Source,
)


def _configuration(folder: Path) -> Configuration:
    # Nothing here is anybody's else code: it may run where no sandbox holds.
    layer = parse_layer({"confirm": "always"}, folder, lambda _: "test")
    return Configuration(Overrides((layer,), isolated=True), frozenset(), folder)


@pytest.fixture(scope="session")
def explained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Explanation]:
    """Explain `Model` of a text, by the command's own way."""

    def run(text: str, name: str = "Model", *, advise: bool = False, **more: object) -> Explanation:
        folder = tmp_path_factory.mktemp("project")
        (folder / "model.py").write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        (target,), settings, workspace = find_targets(f"model.py::{name}", _configuration(folder), folder)
        return explain(target, replace(settings, **more), workspace, advise=advise)  # type: ignore[arg-type]

    return run


# What a page must not take for its own.
HOSTILE = '"</script><img src=x onerror=alert(1)>`'


def _made_up(count: int, path: str = "model.py") -> Explanation:
    """Return a chain of `count` graphs with a break after each but the last, one graph for two lines of source."""
    lines = [f"    x = layer_{at // 2}(x)  # {HOSTILE} {'wide ' * 30}" for at in range(2 * count)]
    text = ("def forward(x):", *lines, "    return x")
    graphs = tuple(_graph(number, path, count) for number in range(1, count + 1))
    breaks = tuple(_break(number, path) for number in range(1, count))
    steps = tuple(
        ExplainedStep(number, Size(2, 4096), number - 1 if number < count else None, number == count)
        for number in range(1, count + 1)
    )
    recompile = ExplainedRecompile("Model.forward", Place(path, 1), 7, True, f"tensor 'x' size mismatch {HOSTILE}")
    return Explanation(
        target=f"model:Model{HOSTILE}",
        inputs="Model(), called with x=float[5, 8]",
        torch="2.13.0",
        python="3.11.7",
        device="cpu",
        calls=(6, 2),
        graphs=(*graphs, replace(graphs[0], number=count + 1, call=7, replaces="size mismatch")),
        breaks=breaks,
        recompiles=(recompile,),
        eager=(Eager("helper", Place(path, 3), "graph break in loop"),),
        steps=steps,
        fullgraph=not breaks,
        fullgraph_error="It breaks." if breaks else "",
        error=None,
        notes=("A note.",),
        sources=(Source(path, text, frozenset(range(2, 2 * count + 3)), ((1, 2 * count + 2, "forward"),)),),
    )


def _graph(number: int, path: str, count: int) -> ExplainedGraph:
    place = Place(path, 2 * number)
    return ExplainedGraph(
        number=number,
        function="Model.forward",
        place=place,
        resumes=number > 1,
        call=1,
        operators=(Operator("linear", number, place), Operator("relu", 1, None)),
        lines={path: (2 * number, 2 * number + 1) if number > 1 else (1, 2, 3)},
        parameters=Size(2, 288),
        inputs=Size(1, 160),
        outputs=Size(2, 320),
        guards=Guards({"TENSOR_MATCH": 3, "ID_MATCH": 20}, (f"L['x'] == {HOSTILE}",)),
        replaces=None,
    )


def _break(number: int, path: str) -> ExplainedBreak:
    return ExplainedBreak(
        place=Place(path, 2 * number + 1, 5, 20),
        function="Model.forward",
        inside="",
        gb="GB0170",
        type="Data-dependent branching",
        reason="",
        explanation=f"Dynamo does not `trace` this {HOSTILE}",
        hints=("Use `torch.cond`.",),
        loses=("Model.forward",) if number == 1 else (),
        cuts_off=(),
        ends=(number,),
        consequence=False,
        rule=OwnFinding("DYN101", "branch-on-tensor", "message", "use `torch.where`", "Select with `torch.where`"),
    )


@pytest.fixture
def made_up() -> Callable[[int], Explanation]:
    """Make an explanation of so many graphs by hand: what is drawn of it needs no torch."""
    return _made_up


@pytest.fixture
def hostile() -> str:
    """A text that stands wherever the user's own may stand in what is made up."""
    return HOSTILE
