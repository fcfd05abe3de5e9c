"""What would help: every remedy on real Dynamo, with what it was said to do."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from dynalint.confirm.worker.dynamo import runs
from dynalint.confirm.worker.dynamo.graph_records import Outcome, Remedy
from dynalint.confirm.worker.dynamo.records import decode
from dynalint.confirm.worker.inputs.targets import BuiltTarget
from dynalint.confirm.worker.operations import advising
from dynalint.confirm.worker.operations.advising import Advisor
from dynalint.confirm.worker.process.wire import Reply
from dynalint.explaining import Explanation, words
from dynalint.explaining.html import render as render_page
from dynalint.explaining.text import render as render_text
from dynalint.report.style import Style

pytestmark = [pytest.mark.dynamo, pytest.mark.usefixtures("torch_is_no_burden")]

log = logging.getLogger(__name__)


class Collected(Reply):
    """Keeps what an operation hands over."""

    def __init__(self) -> None:
        super().__init__(-1, "")
        self.parts: dict[str, Any] = {}

    def send(self, kind: str, value: Any) -> None:
        if kind == "part":
            self.parts[value[0]] = value[1]

    @property
    def before(self) -> Outcome:
        return decode(Outcome, self.parts["before"])

    def remedy(self, kind: str) -> Remedy:
        return next(one for raw in self.parts["remedies"] if (one := decode(Remedy, raw)).kind == kind)

    @property
    def kinds(self) -> list[str]:
        return [one["kind"] for one in self.parts.get("remedies", ())]


@pytest.fixture
def prescribed() -> Callable[..., Collected]:
    def run(make: Callable[[], Any], call: runs.Call | None = None, seconds: float = 1e6, **asked: Any) -> Collected:
        reply = Collected()
        subject = BuiltTarget(make, call or ((torch.ones(5, 8),), {}), "")
        request = {"roots": [__file__], "seconds": seconds, **asked}
        Advisor(subject, request, reply, time.process_time()).serve()
        return reply

    return run


Prescribed = Callable[..., Collected]


class ReadsBack(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, float]:
        y = x[x > 0]
        return y * 2, x.sum().item()


def test_the_smallest_set_of_settings(prescribed: Prescribed) -> None:
    found = prescribed(ReadsBack)
    remedy = found.remedy("settings")
    assert found.before.breaks == 2
    assert remedy.tried.outcome.breaks == 0
    assert remedy.tried.outcome.graphs == 1
    assert remedy.tried.outcome.operators > found.before.operators
    assert {
        "torch._dynamo.config.capture_scalar_outputs = True",
        "torch._dynamo.config.capture_dynamic_output_shape_ops = True",
    } <= set(remedy.tried.lines)
    assert remedy.equal is True
    # fullgraph=True sets both by itself.
    whole = found.remedy("fullgraph")
    assert whole.tried.lines == ("torch.compile(model, fullgraph=True)",)
    assert whole.tried.outcome.breaks == 0


class ReadsNumber(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / x.abs().max().item()


def test_a_setting_that_adds_nothing_is_left_out(prescribed: Prescribed) -> None:
    remedy = prescribed(ReadsNumber, ((torch.ones(()),), {})).remedy("settings")
    assert remedy.tried.lines == ("torch._dynamo.config.capture_scalar_outputs = True",)


def test_what_helped_before_the_time_was_up_is_kept(prescribed: Prescribed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advising, "_MOST_TRIES", 1)
    found = prescribed(ReadsNumber, ((torch.ones(()),), {}))
    assert found.remedy("settings").tried.lines == ("torch._dynamo.config.capture_scalar_outputs = True",)
    assert found.parts["cut_short"] is True


class Writes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        print("value", y)
        log.info("value")
        return y + 1


def test_calls_that_write_are_put_off_or_left_out(prescribed: Prescribed) -> None:
    found = prescribed(Writes, ((torch.ones(()),), {}))
    remedy = found.remedy("settings")
    assert (found.before.breaks, remedy.tried.outcome.breaks) == (2, 0)
    assert sorted(remedy.tried.lines) == [
        "torch._dynamo.config.ignore_logging_functions.add(logging.Logger.info)",
        "torch._dynamo.config.reorderable_logging_functions.add(print)",
    ]
    assert "does not call logging.Logger.info" in remedy.note
    assert "The output of print appears after the graph has run" in remedy.note
    assert torch._dynamo.config.ignore_logging_functions == set()


class Warns(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        # torch 2.14 puts off only what is called without keywords.
        warnings.warn("careful")  # noqa: B028
        return y + 1


@pytest.mark.filterwarnings("ignore:careful")
def test_a_warning_is_put_off(prescribed: Prescribed) -> None:
    remedy = prescribed(Warns, ((torch.ones(()),), {})).remedy("settings")
    assert remedy.tried.lines == ("torch._dynamo.config.reorderable_logging_functions.add(warnings.warn)",)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(8, 8, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.cell(x)[0])


def test_a_recurrent_layer(prescribed: Prescribed) -> None:
    remedy = prescribed(Recurrent, ((torch.ones(8, 8),), {})).remedy("settings")
    assert "torch._dynamo.config.allow_rnn = True" in remedy.tried.lines
    assert remedy.tried.outcome.breaks == 0
    assert remedy.equal is True


class Plain(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def test_another_batch_size_asks_for_dynamic_shapes(prescribed: Prescribed) -> None:
    found = prescribed(Plain)
    remedy = found.remedy("settings")
    assert (found.before.recompiles, remedy.tried.outcome.recompiles) == (1, 0)
    assert remedy.tried.lines[0] in (
        "torch._dynamo.mark_dynamic(x, 0)",
        "torch.compile(model, dynamic=True)",
    )
    assert len(remedy.tried.lines) == 1
    assert found.kinds == ["settings"]


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


def test_a_counter_on_a_module(prescribed: Prescribed) -> None:
    found = prescribed(Counter, ((torch.ones(()),), {}))
    assert any("allow_unspec_int_on_nn_module" in one["name"] for one in found.parts["tried"])


class Fresh(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def test_nothing_is_tried_where_nothing_is_wrong(prescribed: Prescribed) -> None:
    found = prescribed(Fresh, ((torch.ones(()),), {}))
    assert found.before == Outcome(0, 1, 1, 0)
    assert "tried" not in found.parts
    assert found.kinds == []


def test_out_of_time_is_said(prescribed: Prescribed) -> None:
    found = prescribed(ReadsBack, None, 0.0)
    assert found.parts["cut_short"] is True
    assert found.kinds == []


def test_a_way_that_changes_results_is_told(monkeypatch: pytest.MonkeyPatch, prescribed: Prescribed) -> None:
    def wrong(function: Callable[..., Any], settings: Any, backend: Any) -> Any:
        run = runs.user_compile(function, backend=backend)
        return (lambda x: run(x) + 1) if backend == "aot_eager" else run

    monkeypatch.setattr("dynalint.confirm.worker.operations.advising.compiled", wrong)
    remedy = prescribed(ReadsNumber, ((torch.ones(()),), {})).remedy("settings")
    assert remedy.equal is False
    assert remedy.difference.startswith("output in call 1")
    assert words.equality(remedy).startswith("Not equal to eager: output")


def test_advice_reaches_text_page_and_json(explained: Callable[..., Explanation]) -> None:
    found = explained(
        """
        import torch
        from torch import nn

        class Model(nn.Module):
            def forward(self, x):
                return x * x.sum().item()
        """,
        advise=True,
    )
    line = "torch._dynamo.config.capture_scalar_outputs = True"
    assert found.advice is not None
    assert line in found.advice.remedies[0].tried.lines
    text = render_text(found, Style())
    assert "What would help\n  Dynamo settings\n" in text
    assert line in text
    assert "breaks 1 to 0" in text
    assert "stayed equal" in text
    assert line in render_page(found)
    record = found.to_json()["advice"]
    assert record["before"]["breaks"] == 1
    assert record["remedies"][0]["tried"]["outcome"]["breaks"] == 0
