"""What `explain` tells of models whose graphs are known, on real Dynamo."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dynalint.explaining import Explanation, NotExplainedError
from dynalint.explaining.model import Place
from tests.confirm.conftest import walls_stand

# In one test process: torch is imported once for all of them.
pytestmark = [pytest.mark.dynamo, pytest.mark.xdist_group("explain")]

Explain = Callable[..., Explanation]

HEAD = """\
import torch
from torch import nn

"""

TWO_BREAKS = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        skip = x * 2
        x = self.linear(x)
        if x.sum() > 1e9:
            x = x + 1
        x = torch.relu(x)
        print("between")
        return torch.tanh(x) + skip
"""


@pytest.fixture(scope="module")
def two(explained: Explain) -> Explanation:
    return explained(HEAD + TWO_BREAKS)


def text_at(found: Explanation, place: Place | None) -> str:
    assert place is not None
    source = next(source for source in found.sources if source.path == place.path)
    return source.lines[place.line - 1].strip()


def test_two_breaks_make_three_graphs(two: Explanation) -> None:
    assert len(two.first_graphs) == 3
    assert [(text_at(two, one.place), one.gb, one.ends) for one in two.breaks] == [
        ("if x.sum() > 1e9:", "GB0170", (1, 4)),
        ('print("between")', "GB0059", (2, 5)),
    ]
    assert [[(one.name, text_at(two, one.place)) for one in graph.operators] for graph in two.first_graphs] == [
        [
            ("mul", "skip = x * 2"),
            ("linear", "x = self.linear(x)"),
            ("sum", "if x.sum() > 1e9:"),
            ("gt", "if x.sum() > 1e9:"),
        ],
        [("relu", "x = torch.relu(x)")],
        [("tanh", "return torch.tanh(x) + skip"), ("add", "return torch.tanh(x) + skip")],
    ]
    assert [(graph.function, graph.resumes) for graph in two.first_graphs] == [
        ("Model.forward", False),
        ("Model.forward", True),
        ("Model.forward", True),
    ]


def test_a_break_has_dynamos_words_and_the_rule_that_stands_for_it(two: Explanation) -> None:
    branch, output = two.breaks
    assert branch.type == "Data-dependent branching"
    assert branch.explanation.startswith("Detected data-dependent branching")
    assert branch.hints
    assert branch.rule is not None
    assert branch.rule.code == "DYN101"
    assert output.rule is not None
    assert output.rule.code == "DYN401"
    assert branch.place.column in (0, 12)  # Python 3.10 does not record columns
    assert two.fullgraph is False
    assert "branch" in two.fullgraph_error


def test_a_cut_costs_what_is_handed_on_across_it(two: Explanation) -> None:
    first, second, third = two.steps
    rows = 5
    # x and skip cross both cuts; the condition is for Python alone.
    assert (first.crossing.tensors, first.crossing.bytes) == (2, 2 * rows * 8 * 4)
    assert (second.crossing.tensors, second.crossing.bytes) == (2, 2 * rows * 8 * 4)
    assert third.crossing.tensors == 0
    assert [step.ended_by for step in two.steps] == [0, 1, None]
    assert [step.last for step in two.steps] == [False, False, True]


def test_sizes_and_guards_of_a_graph(two: Explanation) -> None:
    first = two.graphs[0]
    assert (first.parameters.tensors, first.parameters.bytes) == (2, (64 + 8) * 4)
    assert first.inputs.tensors == 1
    assert first.guards.kinds["TENSOR_MATCH"] >= 3
    assert any(condition.startswith("L['x']") for condition in first.guards.conditions)
    assert not any("_parameters" in condition for condition in first.guards.conditions)


def test_another_batch_size_recompiles_and_the_guard_is_named(two: Explanation) -> None:
    assert {one.call for one in two.recompiles} == {7}
    assert all(one.batch for one in two.recompiles)
    assert any("size mismatch at index 0" in one.guard for one in two.recompiles)
    assert len(two.graphs) == 6


def test_json_holds_everything(two: Explanation) -> None:
    record: dict[str, Any] = json.loads(json.dumps(two.to_json()))
    assert record["graph_count"] == 3
    assert record["break_count"] == 2
    assert record["calls"] == {"same": 6, "batch": 2}
    assert record["graphs"][0]["operator_count"] == 4
    assert record["graphs"][0]["guards"]["count"] > 10
    assert record["fullgraph"]["passes"] is False
    assert record["breaks"][0]["rule"]["code"] == "DYN101"
    assert "sources" not in record


def test_one_graph(explained: Explain) -> None:
    found = explained(HEAD + "class Model(nn.Module):\n    def forward(self, x):\n        return x + 1\n")
    assert len(found.first_graphs) == 1
    assert found.breaks == ()
    assert found.fullgraph is True
    assert [step.last for step in found.steps] == [True]


def test_a_break_in_a_loop_loses_the_function_and_its_helper_is_run_again(explained: Explain) -> None:
    found = explained(
        HEAD
        + """
class Model(nn.Module):
    def forward(self, x):
        for _ in range(3):
            x = step(x)
        return x

def step(x):
    y = x * 2
    print("here")
    return y + 1
"""
    )
    (cause,) = found.causes
    assert text_at(found, cause.place) == 'print("here")'
    assert cause.function == "step"
    assert cause.loses == ("Model.forward",)
    assert [one.function for one in found.eager] == ["Model.forward"]
    assert [step.graph for step in found.steps] == [1, 2] * 3
    assert [graph.function for graph in found.first_graphs] == ["step", "step"]


def test_a_counter_recompiles_in_calls_alike(explained: Explain) -> None:
    found = explained(
        HEAD
        + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls
"""
    )
    again = [one for one in found.recompiles if not one.batch]
    assert again
    assert all("calls" in one.guard for one in again)


def test_what_cannot_be_run_is_said_in_one_sentence(explained: Explain) -> None:
    with pytest.raises(NotExplainedError, match="ValueError: on purpose"):
        explained("raise ValueError('on purpose')\nclass Model: pass\n")


TOLD = """
class Model(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.linear = nn.Linear(table["width"], 3)

    def forward(self, batch):
        return self.linear(batch["pos"])
"""
MAIN = """
if __name__ == "__main__":
    Model({"width": 7})({"pos": torch.ones(2, 7)})
"""


@pytest.mark.may_skip
@pytest.mark.skipif(not walls_stand(), reason="no sandbox holds on this machine")
def test_the_calls_of_the_project_come_before_guesses(explained: Explain) -> None:
    found = explained(HEAD + TOLD + MAIN)
    assert found.inputs == 'the call Model(dict) in the block `if __name__ == "__main__"`'
    with pytest.raises(NotExplainedError, match="inputs must not be guessed"):
        explained(HEAD + TOLD + MAIN, confirm_from=("tests",))
