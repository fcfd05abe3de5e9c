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
from dynalint.confirm.worker.inputs.targets import Subject
from dynalint.confirm.worker.operations import advising
from dynalint.confirm.worker.operations.advising import Advisor, plainly
from dynalint.confirm.worker.process.wire import Reply
from dynalint.confirm.worker.remedies import regions
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
        subject = Subject(make, call or ((torch.ones(5, 8),), {}), "")
        request = {"roots": [__file__], "seconds": seconds, **asked}
        Advisor(subject, request, reply, time.monotonic()).serve()
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


class Placed(nn.Module):
    """Works out two arguments where it is given none, one of them from parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 8)

    def forward(
        self, x: torch.Tensor, places: torch.Tensor | None = None, rows: torch.Tensor | None = None
    ) -> torch.Tensor:
        if places is None:
            torch._dynamo.graph_break()
            places = (x > 0).sum(dim=1)
        if rows is None:
            torch._dynamo.graph_break()
            rows = self.table(places)
        return x + rows + self.table(places)


def test_an_argument_that_is_worked_out_may_be_handed_over(prescribed: Prescribed) -> None:
    found = prescribed(Placed, ((torch.eye(8),), {}), ways=["settings"], once=True)
    remedy = found.remedy("settings")
    assert remedy.tried.lines == ("model(..., places=places)",)  # with `rows` their gradient would be lost
    assert "as `Placed.forward` does where it is given none" in remedy.note
    assert remedy.tried.outcome.breaks == found.before.breaks - 1
    assert remedy.equal is True


class Part(nn.Module):
    def forward(self, x: torch.Tensor, places: torch.Tensor | None = None) -> torch.Tensor:
        if places is None:
            torch._dynamo.graph_break()
            places = (x > 0).sum(dim=1)
        return x + places


class Outer(nn.Module):
    """Has a parameter of the same name as a part of its own, and does not hand it on."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Part()

    def forward(self, x: torch.Tensor, places: torch.Tensor | None = None) -> torch.Tensor:
        return self.part(x) if places is None else self.part(x) + places


def test_an_argument_that_means_another_is_not(prescribed: Prescribed) -> None:
    found = prescribed(Outer, ((torch.eye(8),), {}), ways=["settings"], once=True)
    assert "places" not in "".join(line for one in found.parts["tried"] for line in one["lines"])


class Twice(nn.Module):
    def forward(
        self, x: torch.Tensor, first: torch.Tensor | None = None, second: torch.Tensor | None = None
    ) -> torch.Tensor:
        if first is None:
            torch._dynamo.graph_break()
            first = x.argmin(dim=1)
        if second is None:
            torch._dynamo.graph_break()
            second = x.argmax(dim=1)
        return x + first + second


def test_two_arguments_go_together(prescribed: Prescribed) -> None:
    remedy = prescribed(Twice, ((torch.eye(8),), {}), ways=["settings"], once=True).remedy("settings")
    assert remedy.tried.lines == ("model(..., first=first)", "model(..., second=second)")
    assert (remedy.tried.outcome.breaks, remedy.equal) == (0, True)


def places_of(x: torch.Tensor, keywords: dict[str, Any]) -> torch.Tensor:
    if (places := keywords.pop("places", None)) is not None:
        return places  # type: ignore[no-any-return]
    torch._dynamo.graph_break()
    return (x > 0).sum(dim=1)


def spans_of(x: torch.Tensor, keywords: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    start = keywords.get("start")
    end = keywords.get("end")
    if start is not None and end is not None:
        return start, end
    torch._dynamo.graph_break()
    return x.argmin(dim=1), x.argmax(dim=1)


class Keyed(nn.Module):
    def forward(self, x: torch.Tensor, **keywords: Any) -> torch.Tensor:
        start, end = spans_of(x, keywords)
        return x + places_of(x, keywords) + start * end


def test_what_the_code_takes_from_its_keywords_may_be_handed_over(prescribed: Prescribed) -> None:
    found = prescribed(Keyed, ((torch.eye(8),), {}), ways=["settings"], once=True)
    remedy = found.remedy("settings")
    assert remedy.tried.lines == ("model(..., start=start, end=end, places=places)",)
    assert "as `spans_of` and `places_of` do where they are given none" in remedy.note
    assert (found.before.breaks, remedy.tried.outcome.breaks) == (2, 0)
    assert remedy.equal is True


class Sides(nn.Module):
    """Hands on the keywords of each side, without the prefix that its own arguments have too."""

    def forward(self, left_x: torch.Tensor, right_x: torch.Tensor, **keywords: Any) -> torch.Tensor:
        left = {name.removeprefix("left_"): value for name, value in keywords.items() if name.startswith("left_")}
        right = {name.removeprefix("right_"): value for name, value in keywords.items() if name.startswith("right_")}
        return left_x * places_of(left_x, left) + right_x * places_of(right_x, right)


def test_keywords_have_the_prefix_of_the_argument_that_they_belong_to(prescribed: Prescribed) -> None:
    found = prescribed(Sides, ((torch.eye(8), torch.ones(8, 8)), {}), ways=["settings"], once=True)
    remedy = found.remedy("settings")
    assert remedy.tried.lines == ("model(..., left_places=left_places, right_places=right_places)",)
    assert (remedy.tried.outcome.breaks, remedy.equal) == (0, True)


class Deaf(nn.Module):
    """Takes keywords, and does not hand them on."""

    def forward(self, x: torch.Tensor, **_keywords: Any) -> torch.Tensor:
        return x + places_of(x, {})


def test_keywords_that_do_not_arrive_are_not_handed_over(prescribed: Prescribed) -> None:
    found = prescribed(Deaf, ((torch.eye(8),), {}), ways=["settings"], once=True)
    assert "places" not in "".join(line for one in found.parts["tried"] for line in one["lines"])


class Sized(nn.Module):
    """Reads its sizes, whatever holds them, and needs the places as a tensor."""

    def forward(self, x: torch.Tensor, sizes: Any = None, places: Any = None) -> torch.Tensor:
        rows = [x[:, : int(size)].sum(dim=1) for size in sizes]
        return torch.stack(rows).index_select(1, places)


def test_sizes_may_be_handed_over_as_a_list(prescribed: Prescribed) -> None:
    inputs = {"sizes": torch.tensor([2, 3]), "places": torch.tensor([0, 1])}
    found = prescribed(Sized, ((torch.eye(8),), inputs), ways=["settings"], once=True)
    assert found.before.breaks > 0
    lines = {line for one in found.parts["tried"] for line in one["lines"]}
    assert "model(..., sizes=sizes.tolist())" in lines
    assert "model(..., places=places.tolist())" not in lines
    (alone,) = [one for one in found.parts["tried"] if one["name"] == "`sizes` as a list"]
    assert alone["outcome"]["breaks"] == 0


def test_what_helped_before_the_time_was_up_is_kept(prescribed: Prescribed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advising, "_MOST_TRIES", 1)
    found = prescribed(ReadsNumber, ((torch.ones(()),), {}))
    assert found.remedy("settings").tried.lines == ("torch._dynamo.config.capture_scalar_outputs = True",)
    assert found.parts["cut_short"] is True


def test_only_the_ways_that_are_asked_for_and_one_call(prescribed: Prescribed) -> None:
    found = prescribed(ReadsNumber, ((torch.ones(()),), {}), ways=["fullgraph"], once=True)
    assert found.kinds == ["fullgraph"]


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
    assert "What print writes comes after the graph" in remedy.note
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


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inner(x))


class Messy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Sequential(nn.Linear(8, 8), nn.Tanh())

    def untidy(self, x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        torch._dynamo.graph_break()
        x = x + 1
        torch._dynamo.graph_break()
        return x - 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(self.untidy(x))


@pytest.mark.slow
def test_the_function_to_leave_out_and_the_parts_to_compile(prescribed: Prescribed) -> None:
    found = prescribed(Messy)
    assert found.before.breaks == 2
    boundary = found.remedy("boundary")
    assert boundary.tried.name == "disable Messy.untidy"
    assert boundary.tried.lines[0] == "@torch.compiler.disable"
    assert boundary.tried.outcome.breaks == 1
    assert boundary.equal is True
    region = found.remedy("region")
    assert region.tried.lines == (
        "for part in model.blocks:",
        "    part.compile(fullgraph=True)",
        "model.head.forward = torch.compile(model.head.forward, fullgraph=True)",
    )
    assert region.tried.outcome.breaks == 0
    assert region.tried.outcome.operators == 8
    assert region.equal is True
    # The function is as it was.
    assert not hasattr(Messy.untidy, "_torchdynamo_disable")


def test_the_lines_for_parts_do_what_they_say() -> None:
    torch.compiler.reset()
    model = Messy()
    x = torch.ones(2, 8)
    expected = model(x)
    names = regions.clean_regions(Messy, ((x,), {}), lambda: False)
    lines, _ = regions.compile_regions(Messy, names)
    source = "\n".join(lines).replace("fullgraph=True", "fullgraph=True, backend='eager'")
    exec(source, {"model": model, "torch": torch})
    torch.testing.assert_close(model(x), expected)
    torch.compiler.reset()


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
    assert remedy.difference.startswith("result in call 1")
    assert words.equality(remedy).startswith("Not equal to eager: result")


def test_plainly_is_plain() -> None:
    assert plainly(torch.relu, "eager")(torch.tensor(-1.0)) == 0


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
