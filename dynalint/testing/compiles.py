"""Assert that something compiles: in one graph, once, without a break in one's own code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

_ROUNDS = 3


def assert_compiles(
    model: Callable[..., Any],
    *args: Any,
    max_graphs: int = 1,
    max_recompiles: int = 0,
    first_party: Iterable[str | Path] | None = None,
    **kwargs: Any,
) -> None:
    """Run `model(*args, **kwargs)` three times under Dynamo and check what it made of it.

    `max_graphs` are the graphs that the first call may be split into, `max_recompiles` those that later calls with the
    same arguments may add. With `first_party`, folders or files, only breaks whose innermost frame lies in them count,
    and graphs are not counted. The model keeps the state that the calls leave it in. Needs torch.

    Raises:
        AssertionError: a graph break, too many graphs, or a recompilation, with the place and Dynamo's own words.
    """
    import torch

    from dynalint.confirm.worker import witness

    with torch.random.fork_rng():
        run = witness.default_run(lambda: model, [(args, kwargs)] * _ROUNDS)
    if run.error is not None:
        raise AssertionError(f"the compiled model raises {run.error.type}: {run.error.message}")
    folders = None if first_party is None else [Path(folder).resolve() for folder in first_party]
    breaks = dict.fromkeys(
        f"\n  {found.stack[-1].file}:{found.stack[-1].line}: {found.gb or 'no id'}: {found.explanation}"
        for found in run.breaks
        if found.stack and (folders is None or _is_below(Path(found.stack[-1].file), folders))
    )
    first, last = run.graphs[0], run.graphs[-1]
    if len(breaks) >= max_graphs or (folders is None and first > max_graphs):
        raise AssertionError(
            f"{first} graphs and {len(breaks)} graph breaks, where {max_graphs} graphs are allowed:{''.join(breaks)}"
        )
    if first == 0:
        raise AssertionError("no graph at all: the model runs no tensor operation, or Dynamo skipped it whole")
    if last - first > max_recompiles:
        reasons = "".join(f"\n  {(attempt.recompile or '').strip()}" for attempt in run.recompiles)
        raise AssertionError(
            f"{_ROUNDS - 1} more calls with the same arguments compile {last - first} more graphs, "
            f"where {max_recompiles} are allowed:{reasons}"
        )


def _is_below(file: Path, folders: list[Path]) -> bool:
    path = file.resolve()
    return any(path == folder or folder in path.parents for folder in folders)
