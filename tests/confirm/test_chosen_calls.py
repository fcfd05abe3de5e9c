"""Which calls of a target are heard."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynalint.confirm.worker.inputs import chosen_calls
from dynalint.confirm.worker.inputs.chosen_calls import REPEATS, ChosenCalls, choose

pytestmark = pytest.mark.dynamo


class Counted:
    """Goes another way if its option is set, and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: torch.Tensor, as_it_is: bool = False) -> Any:
        self.calls += 1
        if as_it_is:
            return x
        return x + 1


def test_calls_that_reach_other_lines_are_found_where_a_file_is_watched() -> None:
    function = Counted()
    chosen = choose(lambda: function, ((torch.ones(2),), {}), {__file__: "counted.py"}, {"counted.py": []})
    assert (len(chosen.repeats), len(chosen.others), chosen.asked) == (REPEATS, 1, False)


def test_none_are_looked_for_where_no_file_is_watched() -> None:
    function = Counted()
    chosen = choose(lambda: function, ((torch.ones(2),), {}), {}, {})
    assert (len(chosen.repeats), len(chosen.others), chosen.asked) == (REPEATS, 0, False)
    assert function.calls == 0


@pytest.mark.parametrize(("spots", "others"), [([[25, 0, 25, 20]], 1), ([[24, 0, 24, 20]], 0)])
def test_a_call_that_a_program_made_is_varied_for_lines_in_question_only(spots: list[list[int]], others: int) -> None:
    watched, call = {__file__: "counted.py"}, ((torch.ones(2),), {})
    chosen = choose(Counted, call, watched, {"counted.py": spots}, varied=False)
    assert (len(chosen.others), chosen.asked) == (others, True)


def test_a_slow_call_is_repeated_but_not_varied(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 1.0])
    monkeypatch.setattr(chosen_calls.time, "process_time", lambda: next(times))
    watched, call = {__file__: "counted.py"}, ((torch.ones(2),), {})
    chosen = choose(Counted, call, watched, {"counted.py": [[26, 0, 26, 20]]})
    assert (len(chosen.repeats), chosen.same, len(chosen.others), chosen.asked) == (2, 2, 0, True)


def test_a_brief_run_does_not_vary_the_call() -> None:
    watched, call = {__file__: "counted.py"}, ((torch.ones(2),), {})
    chosen = choose(Counted, call, watched, {"counted.py": []}, brief=True)
    assert (len(chosen.repeats), len(chosen.others), chosen.asked) == (REPEATS, 0, False)


def test_calls_that_show_nothing_new_are_skipped_once_time_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [((number,), {}) for number in range(6)]
    chosen = ChosenCalls(calls[:4], calls[4:], asked=True, optional={3: 3.0, 4: 1.0})
    for used, left in ((0.5, [0, 1, 2, 3, 4, 5]), (2.0, [0, 1, 2, 3, 5]), (4.0, [0, 1, 2, 5])):
        times = iter([0.0, *[used] * 6])
        monkeypatch.setattr(chosen_calls.time, "process_time", lambda times=times: next(times))
        skipped: set[int] = set()
        assert [args[0] for args, _ in chosen.paced(skipped)] == left
        assert [args[0] for args, _ in chosen.without(skipped).all] == left
        assert len(chosen.without(skipped).repeats) == 4 - (3 in skipped)
