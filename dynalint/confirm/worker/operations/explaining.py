"""Explain a target: record everything that Dynamo does with it.

Parts of the answer, in the order in which they become known. `files`, `inputs` and `problem` are as in `confirming`.

    eager      a record from `dynamo`: which lines in the user's own files ran
    calls      the number of calls: `{"same", "batch"}`
    run, flow  records from `dynamo` and `graphs`, for a run that watches every line
    fullgraph  a record from `dynamo`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..dynamo import runs
from ..dynamo.graphs import trace_flow
from ..dynamo.records import encode
from ..dynamo.runs import Call, Maker
from ..inputs.targets import BuiltTarget, ProblemError, subject_of
from ..inputs.variants import other_batch
from ..process.wire import Reply
from ..source import loading
from .confirming import code_names

_WARM = 5
_BATCHES = 2


@dataclass(frozen=True)
class ExplainedCalls:
    """The calls to make. The first call compiles, the `warm` calls repeat it, and the rest use another batch size."""

    calls: tuple[Call, ...]
    warm: range

    @property
    def batch(self) -> int:
        """The number of calls with another batch size."""
        return len(self.calls) - self.warm.stop


def explain(request: Mapping[str, Any], reply: Reply) -> None:
    """Handle a request similar to the one for `confirming`, but without `spots` and `compare`."""
    runs.trace_own_compiles()
    loading.prepare(request["search"], request["overrides"])
    try:
        subject = subject_of(request, reply)
        reply.part("inputs", subject.text)
        _explain(subject, request, reply)
    except ProblemError as problem:
        reply.part("problem", {"phase": problem.phase, "failure": encode(problem.failure)})
    finally:
        reply.part("files", loading.imported_files(request["roots"]))


def calls_of(make: Maker, call: Call) -> ExplainedCalls:
    """Return calls that show the graphs, how compiled code runs, and recompilations."""
    same = [call] * (1 + _WARM)
    batch = other_batch(call)
    others = [] if batch is None or runs.eager_run(make, [batch]).error is not None else [batch] * _BATCHES
    if others and runs.eager_run(make, [call, *others]).error is not None:
        others = []
    return ExplainedCalls((*same, *others), range(1, len(same)))


def _explain(subject: BuiltTarget, request: Mapping[str, Any], reply: Reply) -> None:
    make, name = subject.make, request["target"]["qualname"]
    reply.stage(f"running {name} without the compiler")
    own = code_names(frozenset(loading.imported_files(request["roots"])))
    eager = runs.eager_run(make, [subject.call] * 2, own)
    if eager.error is not None:
        raise ProblemError("run", eager.error)
    reply.part("eager", encode(replace(eager, lines={own[file]: lines for file, lines in eager.lines.items()})))
    calls = calls_of(make, subject.call)
    reply.part("calls", {"same": calls.warm.stop, "batch": calls.batch})
    reply.stage(f"running {name} under torch.compile")
    run, flow = trace_flow(make, calls.calls, own, calls.warm)
    reply.part("run", encode(replace(run, traced={})))
    reply.part("flow", encode(flow))
    reply.stage(f"running {name} with fullgraph=True")
    reply.part("fullgraph", encode(runs.fullgraph_run(make, calls.calls)))
