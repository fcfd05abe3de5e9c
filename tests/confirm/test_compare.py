"""Code that Dynamo traces whole and gets wrong, and its twins that are right."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from dynalint.confirm.worker.comparing.blame import place_of
from dynalint.confirm.worker.comparing.compiled import compare, leaves_traces
from dynalint.confirm.worker.comparing.differences import Equality, let_pass, no_less_accurate
from dynalint.confirm.worker.comparing.observing import Observation
from dynalint.confirm.worker.dynamo.runs import Call

pytestmark = [pytest.mark.dynamo, pytest.mark.usefixtures("torch_is_no_burden")]

CALLS: list[Call] = [((torch.linspace(0, 1, 12).reshape(3, 4) + step,), {}) for step in range(4)]


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("steps", torch.tensor(0.0))

    def forward(self, x):
        self.steps += 1
        return self.fc(x) * self.steps


class Assigned(InPlace):
    def forward(self, x):
        self.steps = self.steps + 1
        return self.fc(x) * self.steps


class Window(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen = deque(maxlen=2)

    def forward(self, x):
        self.seen.append(x.detach().sum())
        return x + sum(self.seen)


class KeepsGraph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.mean = torch.zeros(4)

    def forward(self, x):
        x = self.fc(x)
        self.mean = self.mean * 0.9 + x.mean(0)
        return x


class Forgetful(nn.Module):
    """Loses the update of its state where it is compiled, on every release of torch."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor(0.0))

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.total.add_(x.detach().sum())
        return x * 2


def test_a_wrong_gradient_is_found_with_its_place() -> None:
    found = compare(InPlace, CALLS)
    assert not found.same
    assert found.training
    assert found.what.startswith("gradient of ")
    assert found.call == 0


def test_the_assigned_twin_is_right() -> None:
    found = compare(Assigned, CALLS)
    assert found.same
    assert found.stable
    assert found.gradients


def test_a_bounded_deque_has_other_values() -> None:
    found = compare(Window, CALLS)
    assert not found.same
    assert " became " in found.detail


def test_a_second_backward_that_fails_only_when_compiled_is_found() -> None:
    found = compare(KeepsGraph, CALLS)
    assert not found.same
    assert (found.call, found.what) == (1, "exception")
    assert "backward through the graph a second time" in found.detail


def test_a_lost_update_of_state_is_found_without_gradients() -> None:
    found = compare(Forgetful, CALLS)
    assert not found.same
    assert "total" in found.what


def test_what_raises_in_both_is_the_same() -> None:
    class Raises(nn.Module):
        def forward(self, x):
            raise ValueError("always")

    assert compare(Raises, CALLS).same


def test_random_numbers_are_the_same_with_the_same_seed() -> None:
    assert compare(lambda: nn.Dropout(0.5), CALLS).same


class Evaluated(Window):
    def forward(self, x):
        return x if self.training else super().forward(x)


class Drawn(Window):
    def forward(self, x):
        return super().forward(x + torch.rand_like(x))


class Chaotic(nn.Module):
    def forward(self, x):
        return torch.frac(x * 1e9)


class Fitted(nn.Module):
    """The difference is in a part; around it are torch's own layers and one of the user's own that is right."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), Assigned(), nn.BatchNorm1d(4), Window())

    def forward(self, x):
        return self.layers(x)


def line_of(owner: type, words: str) -> int:
    lines, first = inspect.getsourcelines(owner)
    return first + next(at for at, line in enumerate(lines) if words in line)


def test_a_difference_in_evaluation_mode_alone_is_found() -> None:
    found = compare(Evaluated, CALLS)
    assert not found.same
    assert (found.evaluation, found.training) == (True, False)


def test_code_that_differs_from_itself_is_not_judged() -> None:
    found = compare(Drawn, CALLS)
    assert (found.same, found.stable) == (True, False)
    assert compare(Chaotic, CALLS).same


def test_a_difference_is_placed_in_the_innermost_module_of_ones_own() -> None:
    here = [str(Path(__file__).parent)]
    place = place_of(Fitted, CALLS, compare(Fitted, CALLS), here, 60.0)
    assert place is not None
    assert (place.file, place.line, place.function) == (str(Path(__file__)), line_of(Window, "def forward"), "forward")
    place = place_of(Forgetful, CALLS, compare(Forgetful, CALLS), here, 60.0)
    assert place is not None
    assert place.line == line_of(Forgetful, "self.total.add_")
    assert place_of(Forgetful, CALLS, compare(Forgetful, CALLS), ["/nowhere"], 60.0) is None


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (InPlace, True),
        (Window, True),
        (lambda: torch.relu_, True),
        (lambda: nn.BatchNorm1d(4), False),
        (lambda: nn.Linear(4, 4), False),
        (lambda: torch.linalg.inv, False),
    ],
)
def test_calls_that_leave_traces(make: Callable[[], Callable[..., object]], expected: bool) -> None:
    assert leaves_traces(make, ((-CALLS[1][0][0],), {})) is expected


@pytest.mark.parametrize(
    ("weight", "bias", "became", "expected"),
    [(0.5, 0.0, 1e-3, True), (0.5, 0.0, 0.1, False), (1e-3, 0.0, 1e-3, False), (100.0, 0.5, -0.4, False)],
)
def test_what_is_left_of_a_gradient_that_cancels_out_is_rounding(
    weight: float, bias: float, became: float, expected: bool
) -> None:
    def seen(value: float) -> Observation:
        return Observation(gradients={"weight": torch.full((4,), weight), "bias": torch.tensor([0.0, value, -value])})

    assert no_less_accurate(seen(bias), seen(became), seen(bias), Equality(practical=True)) is expected


def test_a_number_that_becomes_a_tensor_is_told() -> None:
    number, tensor = Observation(output=0.5), Observation(output=torch.tensor(0.5))
    assert list(let_pass(number, tensor)) == ["output is a 0-dim tensor instead of a number"]
    assert not list(let_pass(Observation(error=("IndexError", "out of range")), tensor))
