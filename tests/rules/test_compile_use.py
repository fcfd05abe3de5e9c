"""What the rules on the use of `torch.compile` claim, run: no graph of an example can show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

pytestmark = [pytest.mark.dynamo, pytest.mark.runs_dynamo, pytest.mark.usefixtures("torch_is_no_burden")]


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def test_compiling_again_gives_new_wrappers_of_the_same_code() -> None:
    model, counter = nn.Linear(8, 8), CompileCounter()
    wrappers = [torch.compile(model, backend=counter) for _ in range(3)]
    for wrapper in wrappers:
        wrapper(torch.ones(4, 8))
    assert len({id(wrapper) for wrapper in wrappers}) == 3
    assert counter.frame_count == 1


def test_a_backend_made_on_the_spot_compiles_anew_each_time() -> None:
    model, counter = nn.Linear(8, 8), CompileCounter()
    for number in range(3):

        def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor], number: int = number) -> object:
            return counter(graph, inputs)

        torch.compile(model, backend=backend)(torch.ones(4, 8))
    assert counter.frame_count == 3


def test_a_discarded_result_compiles_nothing() -> None:
    model, counter = nn.Linear(8, 8), CompileCounter()
    torch.compile(model, backend=counter)
    model(torch.ones(4, 8))
    assert counter.frame_count == 0


def test_keys_of_a_compiled_module_have_a_prefix() -> None:
    model = nn.Linear(8, 8)
    assert all(key.startswith("_orig_mod.") for key in torch.compile(model).state_dict())
    with pytest.raises(RuntimeError, match="Unexpected key"):
        model.load_state_dict(torch.compile(model).state_dict())
    model.compile()
    assert list(model.state_dict()) == ["weight", "bias"]


def test_the_first_call_compiles() -> None:
    counter = CompileCounter()
    fast = torch.compile(torch.relu, backend=counter)
    assert counter.frame_count == 0
    fast(torch.ones(4))
    fast(torch.ones(4))
    assert counter.frame_count == 1


def _breaks_first(x: torch.Tensor) -> torch.Tensor:
    print(end="")
    return x * 2


def _breaks_last(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    print(end="")
    return y


def _doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.mark.parametrize("function", [_breaks_first, _breaks_last])
def test_one_graph_does_not_mean_that_nothing_breaks(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    counter = CompileCounter()
    torch.compile(function, backend=counter)(torch.ones(4))
    assert counter.frame_count == 1
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(function, backend="eager", fullgraph=True)(torch.ones(4))


def test_static_shapes_compile_each_size() -> None:
    for dynamic, graphs in ((False, 5), (None, 2)):
        torch.compiler.reset()
        counter = CompileCounter()
        fast = torch.compile(_doubled, backend=counter, dynamic=dynamic)
        for size in range(2, 7):
            fast(torch.ones(size, 8))
        assert counter.frame_count == graphs


class _Layer(nn.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.index


def test_layers_with_numbers_of_their_own_compile_one_by_one() -> None:
    counter = CompileCounter()
    layers = [_Layer(index) for index in range(2, 7)]
    for layer in layers:
        layer.compile(backend=counter)
        layer(torch.ones(4))
    assert counter.frame_count == 5
    assert torch._dynamo.config.recompile_limit == 8
