"""Make a call without the compiler, to find out what it reaches and whether it is quick enough to be compiled."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..dynamo import runs
from ..dynamo.runs import Call, innermost
from ..operations import confirming
from ..source import loading
from ..tracing.live import maker
from .processor_time import limited
from .wanted import Span, Wanted

# The limit for an eager call, in seconds of processor time. A slower call would take too long when compiled. The first
# call may take longer, because it may fill a cache.
_QUICK, _FIRST = 1.5, 4


def tried(
    wanted: list[Wanted],
    subject: Any,
    call: Call,
    request: Mapping[str, Any],
    bodies: Mapping[tuple[str, str], set[tuple[str, int]]],
) -> dict[str, Any]:
    """Make a call in eager mode. Return the exception that it raises, or the required line ranges that it reached.

    `bodies` are the lines of each target, which is `inside` the call if any of them runs. Returns nothing if the call
    reaches no required lines, unless no call has been confirmed yet. A slow call counts as raising.
    """
    watched = confirming.code_names(loading.imported_files(request["roots"]) if request["record"] else request["spots"])
    function = maker(subject)()
    started = time.process_time()
    with limited(_FIRST, math.inf):
        run = runs.call_once(function, call, watched)
    if run.error is None and time.process_time() - started > _QUICK:
        with limited(_QUICK, math.inf):
            run = replace(run, error=runs.call_once(function, call).error)
    if run.error is not None:
        slow = run.error.type == TimeoutError.__name__
        return {"raises": "a call takes too long" if slow else f"{run.error.type}: {run.error.message}"[:200]}
    seen = {(watched[file], line) for file, lines in run.lines.items() for line in lines}
    reached = sorted(set[Span]().union(*(one.new(seen) for one in wanted)))
    if not reached and any(one.calls for one in wanted):
        return {}
    return {"reached": reached, "inside": [key for key, body in bodies.items() if not body.isdisjoint(seen)]}


def lines_of(found: Any) -> set[tuple[str, int]]:
    """Return the lines in the body of a function, without its first line, which runs when it is defined."""
    code = getattr(innermost(found) if callable(found) else found, "__code__", None)
    if code is None:
        return set()
    path = loading.real_path(code.co_filename)
    return {(path, line) for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno}
