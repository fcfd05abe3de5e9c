"""`dynalint.explain`, on a model at hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import dynalint

pytestmark = pytest.mark.dynamo


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        nn.init.ones_(self.fc.weight)  # the branch is taken, and there is something to compute after the test
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        x = self.fc(x) * self.calls
        if x.sum() > 0:
            x = x + 1
        return x


def test_breaks_and_recompiles_are_told_and_nothing_is_left_behind() -> None:
    model, x = Counted(), torch.ones(2, 4)
    state = torch.get_rng_state()
    report = dynalint.explain(model, x)
    assert report.graphs == 2
    assert report.error is None
    (found,) = report.breaks
    assert (found.file, found.function, found.gb, found.effect) == (__file__, "forward", "GB0170", "split")
    assert found.hints
    assert {again.guard for again in report.recompiles} >= {"self.calls == 0"}
    assert report.fullgraph is not None
    assert model.calls == 0
    assert torch.equal(torch.get_rng_state(), state)
    assert f"{__file__}:{found.line}: GB0170: {found.reason}" in str(report)


def test_a_whole_function_passes() -> None:
    report = dynalint.explain(torch.nn.functional.softmax, torch.ones(2), dim=0)
    assert (report.graphs, report.breaks, report.recompiles, report.fullgraph) == (1, (), (), None)
    assert str(report).splitlines()[-1] == "fullgraph=True: passes"


def test_what_the_model_raises_is_told() -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        return x @ x

    report = dynalint.explain(fails, torch.ones(2, 3))
    assert report.error is not None
    assert "a and b must have same reduction dim" in report.error
