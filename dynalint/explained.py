"""`dynalint.explain`: show how Dynamo compiles a callable in this process. Requires torch."""

from __future__ import annotations

import copy
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynalint.confirm.worker.dynamo.records import Break, Compile, RunFailure

_CALLS = 3
_LONGEST = 400


@dataclass(frozen=True)
class GraphBreak:
    """A graph break at the innermost line that Dynamo names.

    `effect` describes what was lost: `split`, `rest` or `frame`.
    """

    file: str
    line: int
    function: str
    gb: str | None
    kind: str
    reason: str
    hints: tuple[str, ...]
    effect: str


@dataclass(frozen=True)
class Recompile:
    """A recompilation in `call`, one of the similar calls (counted from 0), with the guard that failed."""

    file: str
    line: int
    function: str
    call: int
    guard: str


@dataclass(frozen=True)
class ExplainReport:
    """A report on three similar calls under Dynamo.

    `graphs` and `operations` are the numbers for the first call. `fullgraph` is the error that `fullgraph=True` raised,
    or None. `error` is the error that ended the compiled run, or None.
    """

    graphs: int
    operations: int
    breaks: tuple[GraphBreak, ...]
    recompiles: tuple[Recompile, ...]
    fullgraph: str | None
    error: str | None

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"graphs: {self.graphs}, operations in them: {self.operations}"
        for found in self.breaks:
            yield f"{found.file}:{found.line}: {found.gb or found.kind}: {found.reason}"
            yield from (f"    {hint}" for hint in found.hints)
        for again in self.recompiles:
            place = f"{again.file}:{again.line}"
            yield f"{place}: {again.function} was compiled again in call {again.call + 1}: {again.guard}"
        yield f"fullgraph=True: {'passes' if self.fullgraph is None else self.fullgraph}"
        if self.error is not None:
            yield f"the compiled code raises {self.error}"


def explain(model: Callable[..., Any], *args: Any, **kwargs: Any) -> ExplainReport:
    """Call a model or function three times under Dynamo, and once with `fullgraph=True`, and return a report.

    Modules and tensor arguments are copied first, so their state does not change.
    """
    import torch

    from dynalint.confirm.worker.dynamo import runs

    def make() -> Any:
        return copy.deepcopy(model) if isinstance(model, torch.nn.Module) else model

    calls = [(args, kwargs)] * _CALLS
    with torch.random.fork_rng():
        run = runs.default_run(make, calls)
        whole = runs.fullgraph_run(make, calls).error
    return ExplainReport(
        graphs=run.graphs[0] if run.graphs else 0,
        operations=run.operations[0] if run.operations else 0,
        breaks=tuple(dict.fromkeys(_break(found) for found in run.breaks)),
        recompiles=tuple(_recompile(again) for again in run.recompiles),
        fullgraph=_words(whole),
        error=_words(run.error),
    )


def _break(found: Break) -> GraphBreak:
    from dynalint.confirm.wording import break_text, helpful_hints

    frame = found.stack[-1] if found.stack else None
    return GraphBreak(
        file=frame.file if frame is not None else "",
        line=frame.line if frame is not None else 0,
        function=frame.function if frame is not None else "",
        gb=found.gb,
        kind=found.gb_type,
        reason=break_text(found).partition(" Hint: ")[0],
        hints=tuple(helpful_hints(found.hints)),
        effect=found.effect,
    )


def _recompile(again: Compile) -> Recompile:
    from dynalint.confirm.recompiles import guard

    return Recompile(again.file, again.line, again.function, again.call, guard(again))


def _words(failure: RunFailure | None) -> str | None:
    if failure is None:
        return None
    return f"{failure.type}: {textwrap.shorten(failure.message, _LONGEST)}"
