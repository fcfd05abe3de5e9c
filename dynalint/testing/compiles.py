"""Assert that code compiles to a single graph, without recompilations, and without graph breaks in user code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynalint.confirm.results import TargetResult
    from dynalint.confirm.worker.dynamo.records import Break

_ROUNDS = 3


@dataclass(frozen=True)
class Demands:
    """What code must satisfy, with the same names as in `assert_compiles`.

    `first_party` are resolved folders and files.
    """

    max_graphs: int = 1
    max_recompiles: int = 0
    first_party: tuple[Path, ...] | None = None

    @staticmethod
    def of(max_graphs: int = 1, max_recompiles: int = 0, first_party: Iterable[str | Path] | None = None) -> Demands:
        """Create demands from arguments as users write them."""
        folders = None if first_party is None else tuple(Path(folder).resolve() for folder in first_party)
        return Demands(max_graphs, max_recompiles, folders)

    def counts(self, found: Break) -> bool:
        """Return whether a break counts."""
        if self.first_party is None:
            return True
        path = Path(found.stack[-1].file) if found.stack else Path()
        return any(path == folder or folder in path.parents for folder in self.first_party)


def assert_compiles(
    model: Callable[..., Any],
    *args: Any,
    max_graphs: int = 1,
    max_recompiles: int = 0,
    batch_sizes: Iterable[int] = (),
    backend: str = "eager",
    first_party: Iterable[str | Path] | None = None,
    **kwargs: Any,
) -> None:
    """Run `model(*args, **kwargs)` three times under Dynamo and check the graphs.

    `max_graphs` is the number of graphs that the first call may compile, and `max_recompiles` is the number that later
    calls with the same arguments may add. `batch_sizes` adds calls whose tensors have these numbers of rows. Together,
    these calls may recompile each graph once with dynamic shapes, and once more for each of the sizes 0 and 1, because
    Dynamo specialises on those sizes. They may also add `max_recompiles` graphs. `backend` compiles the graphs.

    If `first_party` (a list of folders or files) is given, only breaks whose innermost frame is in one of them count,
    and the number of graphs is not checked. The model's state is not restored after the calls. Requires torch.

    Raises:
        AssertionError: If there is a graph break, a recompilation or too many graphs. The message gives the location,
            Dynamo's explanation, and the rewrite that dynalint suggests.
    """
    import torch

    from dynalint.confirm.worker.dynamo import runs

    call = (args, kwargs)
    batches = [_with_rows(call, size) for size in batch_sizes]
    with torch.random.fork_rng():
        run = runs.default_run(lambda: model, [*[call] * _ROUNDS, *batches], backend=backend)
    if run.error is not None:
        raise AssertionError(f"the compiled model raises {run.error.type}: {run.error.message}")
    fault = fault_of(_result(run, len(batches)), Demands.of(max_graphs, max_recompiles, first_party))
    if fault is not None:
        raise AssertionError(fault)


def fault_of(result: TargetResult, demands: Demands) -> str | None:
    """Return how a run violates the demands, with locations and reasons, or None if it satisfies them."""
    from dynalint.confirm.results import distinct

    run = result.default
    assert run is not None
    real = result.same + result.batch
    breaks = distinct(found for found in run.breaks if found.call < real and demands.counts(found))
    first, alike = run.graphs[0], run.graphs[result.same - 1]
    counted = demands.first_party is None
    if len(breaks) >= demands.max_graphs or (counted and first > demands.max_graphs):
        what = f"{_number(first, 'graph')} and {_number(len(breaks), 'graph break')}"
        return f"{what}, but only {_allowed(demands.max_graphs, 'graph')}:{_formatted(result, breaks)}"
    if first == 0:
        return "no graph at all: the model runs no tensor operations, or Dynamo skipped all of it"
    if alike - first > demands.max_recompiles:
        calls = f"{result.same - 1} more calls with the same arguments"
        return _grown(result, calls, alike - first, demands.max_recompiles)
    grown = run.graphs[real - 1] - alike
    if grown > first + demands.max_recompiles:
        return _grown(result, "calls with other batch sizes", grown, first + demands.max_recompiles)
    return None


def _grown(result: TargetResult, calls: str, grown: int, allowed: int) -> str:
    from dynalint.confirm.recompiles import guard

    assert result.default is not None
    again = [attempt for attempt in result.default.recompiles if attempt.call < result.same + result.batch]
    reasons = "".join(f"\n  {attempt.function}: {guard(attempt)}" for attempt in again)
    what = f"{calls} compile {_number(grown, 'more graph')}, but only {_allowed(allowed, '')}:{reasons}"
    return what + _formatted(result, [])


def _formatted(result: TargetResult, breaks: Sequence[Break]) -> str:
    """Format breaks as findings. Breaks outside the user's code are shown at their own location."""
    from dynalint.testing.failures import formatted, is_users

    foreign = [found for found in breaks if not any(is_users(frame.file) for frame in found.stack)]
    lines = [
        f"\n  {found.stack[-1].file}:{found.stack[-1].line}: {found.gb or 'no id'}: {found.explanation}"
        for found in foreign
        if found.stack
    ]
    return "".join(lines) + formatted([result], is_users)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _allowed(count: int, noun: str) -> str:
    return f"{_number(count, noun) if noun else count} {'is' if count == 1 else 'are'} allowed"


def _result(run: Any, batches: int) -> TargetResult:
    """Convert a run in this process to the result that a worker would return."""
    import torch

    from dynalint.confirm.options import Target
    from dynalint.confirm.results import result_of
    from dynalint.confirm.worker.dynamo.records import EagerRun, encode

    files = {frame.file for found in run.breaks for frame in found.stack} | {again.file for again in run.recompiles}
    parts = {
        "inputs": "this call",
        "eager": encode(EagerRun({}, None)),
        "calls": {"same": _ROUNDS, "batch": batches},
        "default": encode(run),
        "files": [str(Path(file).resolve()) for file in files],
    }
    record = {"outcome": "done", "ending": {}, "stage": "", "parts": parts}
    return result_of(Target(Path(), "", ""), str(torch.__version__), record, {})


def _with_rows(call: Any, size: int) -> Any:
    """Return the call with `size` rows in each tensor that has as many rows as the first tensor."""
    import torch
    from torch.utils import _pytree as pytree

    tensors = [leaf for leaf in pytree.tree_leaves(call) if isinstance(leaf, torch.Tensor) and leaf.dim() > 0]
    rows = tensors[0].shape[0] if tensors else 0

    def resized(tensor: torch.Tensor) -> torch.Tensor:
        if not rows or tensor.dim() == 0 or tensor.shape[0] != rows:
            return tensor
        order = torch.arange(size, device=tensor.device) % rows
        return tensor.detach().index_select(0, order).requires_grad_(tensor.requires_grad)

    return pytree.tree_map_only(torch.Tensor, resized, call)
