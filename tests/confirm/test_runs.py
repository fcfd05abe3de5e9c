"""What the witness hears from Dynamo itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo import symbolic_convert, utils

from dynalint.confirm.worker.dynamo import runs
from dynalint.confirm.worker.dynamo.metrics import UnknownReleaseError
from dynalint.confirm.worker.dynamo.records import Run, decode, encode
from dynalint.confirm.worker.dynamo.reports import gb_id

pytestmark = [pytest.mark.dynamo, pytest.mark.usefixtures("torch_is_no_burden")]


def branch(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


def reads_item(x: torch.Tensor) -> torch.Tensor:
    return x * x.mean().item()


def breaks_in_loop(x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = x + 1
        if x.sum() > 0:
            x = x * 2
    return x


def breaks_in_a_chain(x: torch.Tensor) -> torch.Tensor:
    n = int(x.sum())

    y = (
        x.permute(1, 0)
        .contiguous()
        * int(x.sum())
    )  # fmt: skip
    return y + n + int(y.sum())


def calls_helper(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    return branch(y)


def guards(x: torch.Tensor) -> torch.Tensor:
    if (x * 2).sum() < -1e9:
        raise ValueError("negative")
    return x


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        return x * self.n


def line_of(function: Callable[..., Any], offset: int) -> int:
    return function.__code__.co_firstlineno + offset


def calls(number: int = 3, rows: int = 3) -> list[runs.Call]:
    return [((torch.ones(rows, 4),), {})] * number


def test_a_branch_on_data_breaks_with_id_place_and_words() -> None:
    run = runs.default_run(lambda: branch, calls())
    (found,) = run.breaks
    assert found.gb == "GB0170"
    assert found.gb_type == "Data-dependent branching"
    assert found.explanation.startswith("Detected data-dependent branching")
    assert any("torch.cond" in hint for hint in found.hints)
    assert found.effect == "split"
    assert [(frame.function, frame.line) for frame in found.stack] == [("branch", line_of(branch, 2))]
    assert found.stack[0].file == __file__
    assert found.call == 0
    assert run.graphs == (2, 2, 2)
    assert run.error is None


def test_fullgraph_raises_for_a_branch_and_names_it() -> None:
    error = runs.fullgraph_run(lambda: branch, calls()).error
    assert error is not None
    assert (error.type, error.gb, error.call) == ("Unsupported", "GB0170", 0)
    assert error.stack[-1].line == line_of(branch, 2)


def test_item_breaks_in_default_mode_only() -> None:
    assert [found.gb for found in runs.default_run(lambda: reads_item, calls()).breaks] == ["GB0124"]
    assert runs.fullgraph_run(lambda: reads_item, calls()).error is None


def test_breaks_after_the_first_have_the_lines_of_the_source() -> None:
    run = runs.default_run(lambda: breaks_in_a_chain, calls(1), [__file__])
    assert [found.stack[-1].line - line_of(breaks_in_a_chain, 0) for found in run.breaks] == [1, 6, 8]
    assert line_of(breaks_in_a_chain, 7) not in {span[0] for span in run.traced[__file__]}


def test_a_break_in_a_loop_is_named_by_its_cause_and_loses_the_frame() -> None:
    run = runs.default_run(lambda: breaks_in_loop, calls())
    (found,) = run.breaks
    assert (found.gb, found.secondary, found.effect) == ("GB0170", ("GB7000",), "frame")
    assert run.graphs == (0, 0, 0)
    assert run.traced == {}


def test_a_break_in_a_helper_has_the_stack_from_the_root_on() -> None:
    run = runs.default_run(lambda: calls_helper, calls())
    stacks = {tuple(frame.function for frame in found.stack) for found in run.breaks}
    assert stacks == {("calls_helper", "branch")}
    assert {found.stack[-1].line for found in run.breaks} == {line_of(branch, 2)}


def test_python_state_recompiles_with_the_guard_as_reason() -> None:
    run = runs.default_run(Counter, calls())
    assert run.breaks == ()
    assert run.graphs == (1, 2, 3)
    assert [again.call for again in run.recompiles] == [1, 2]
    assert all("self.n ==" in (again.recompile or "") for again in run.recompiles)


def test_the_recompile_limit_is_told_in_both_modes() -> None:
    many = calls(12)
    assert runs.default_run(Counter, many).limit_hit == ("forward",)
    error = runs.fullgraph_run(Counter, many).error
    assert error is not None
    assert error.recompile_limit
    assert error.gb is None


def test_each_run_gets_a_fresh_callable_and_fresh_inputs() -> None:
    given = torch.zeros(2)

    def adds(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1)

    runs.default_run(lambda: adds, [((given,), {})] * 2)
    runs.eager_run(lambda: adds, [((given,), {})] * 2)
    assert given.tolist() == [0, 0]


@pytest.mark.parametrize("function", [branch, breaks_in_loop, reads_item])
def test_a_run_knows_what_explain_reports(function: Callable[..., Any]) -> None:
    (args, kwargs), *_ = calls()
    told = torch._dynamo.explain(function)(*args, **kwargs).break_reasons
    assert runs.default_run(lambda: function, calls()).explained == bool(told) == (function in (branch, reads_item))


def test_eager_lines_are_those_that_ran() -> None:
    first = line_of(branch, 0)
    run = runs.eager_run(lambda: branch, calls(), [__file__])
    assert set(run.lines[__file__]) == {first + 1, first + 2, first + 3}


def test_what_user_code_raises_ends_the_run_and_is_told() -> None:
    def refuses(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 3:
            raise ValueError("three rows")
        return x

    run = runs.eager_run(lambda: refuses, [*calls(1, 2), *calls(1, 3)])
    assert run.error is not None
    assert (run.error.type, run.error.message, run.error.call) == ("ValueError", "three rows", 1)
    assert run.error.stack[-1].line == line_of(refuses, 2)


def test_traced_spans_are_those_of_captured_frames() -> None:
    run = runs.default_run(lambda: branch, calls(), [__file__])
    first = line_of(branch, 0)
    lines = {span[0] for span in run.traced[__file__]}
    assert {first + 1, first + 2, first + 3} <= lines
    assert first + 4 not in lines


def test_a_guard_that_raises_has_its_cause_first() -> None:
    run = runs.default_run(lambda: guards, calls())
    assert run.breaks[0].gb == "GB0170"
    assert run.breaks[0].stack[-1].line == line_of(guards, 1)


def test_compiled_callables_are_taken_apart() -> None:
    class Model(nn.Module):
        @torch.compile(backend="eager")
        def step(self, x: torch.Tensor) -> torch.Tensor:
            return branch(x)

    for make in (
        lambda: torch.compile(branch, backend="eager"),
        lambda: torch.compile(nn.Sequential(nn.Identity()), backend="eager"),
        lambda: Model().step,
    ):
        run = runs.default_run(make, calls())
        assert run.error is None
        assert run.graphs[-1] <= 2


def test_the_hooks_are_taken_out_again() -> None:
    from torch._dynamo.symbolic_convert import InstructionTranslatorBase

    before = (InstructionTranslatorBase.run, InstructionTranslatorBase.step)
    runs.default_run(lambda: branch, calls(), [__file__])
    assert before == (InstructionTranslatorBase.run, InstructionTranslatorBase.step)


@pytest.mark.parametrize("function", [branch, breaks_in_loop, reads_item])
def test_a_witness_travels_as_json(function: Callable[..., Any]) -> None:
    heard = runs.default_run(lambda: function, calls(), [__file__])
    assert decode(Run, json.loads(json.dumps(encode(heard)))) == heard


def test_every_id_of_this_release_is_known_by_its_type() -> None:
    assert gb_id("Data-dependent branching") == "GB0170"
    assert gb_id("no such type") is None


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (utils, "get_compilation_metrics"),
        (utils, "clear_compilation_metrics"),
        (symbolic_convert.InstructionTranslatorBase, "step"),
        (symbolic_convert.InstructionTranslatorBase, "log_graph_break"),
    ],
)
def test_a_private_part_of_torch_that_is_missing_is_no_exception_of_the_users_code(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    monkeypatch.delattr(owner, name)
    with pytest.raises((AttributeError, UnknownReleaseError), match=name):
        runs.default_run(lambda: branch, [((torch.ones(3),), {})])


def test_metrics_without_an_attribute_that_is_needed_are_not_taken_for_no_recompilation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(utils, "get_compilation_metrics", lambda: [object()])
    with pytest.raises(UnknownReleaseError, match=r"cannot read the metrics of torch .*'co_filename'"):
        runs.default_run(lambda: branch, [((torch.ones(3),), {})])


@pytest.mark.skipif(sys.version_info < (3, 11), reason="there are no columns")
def test_a_break_at_a_test_of_a_statement_over_several_lines_says_where_it_ends() -> None:
    def branching(x, y):
        if x.any() or y.any():
            return x + 1
        return x

    call = (torch.zeros(2), torch.zeros(2)), {}
    found = runs.default_run(lambda: branching, [call])
    assert [one.stack[-1].end_line - one.stack[-1].line for one in found.breaks] == [1, 1]
