"""Confirm a call to objects in memory, with the same runs and records as for objects that the worker builds."""

from __future__ import annotations

import contextlib
import copy
import sys
import tokenize
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from ..dynamo import runs
from ..dynamo.records import Run, encode
from ..dynamo.runs import Call
from ..inputs import targets
from ..operations import confirming
from ..process.wire import Reply
from ..source import loading, spans

# A range that covers every line.
_WHOLE = (1, 0, sys.maxsize, 0)


def run_call(
    subject: Any, call: Call, text: str, target: Mapping[str, str], roots: Sequence[str], seconds: float, reply: Reply
) -> None:
    """Run `call` on `subject` in all modes and send each result.

    Two parts are added to the worker's: `files` are the user's own files that any call ran or traced, and `spans` are
    their operations with the runs that traced each of them. They are recorded for all lines, because the findings are
    not known yet.
    """
    runs.trace_own_compiles()
    own = loading.imported_files(roots)
    request = {
        "target": target,
        "spots": {path: [_WHOLE] for path in own},
        "overrides": {},
        "compare": [],
        # A later check may judge any kind of finding by this call.
        "resized": [*own],
        "roots": roots,
        "seconds": seconds,
    }
    seen = _Seen(reply)
    made: list[Run] = []

    def note(run: Run) -> None:
        made.append(run)
        tables = _tables(own, made, seen.lines)
        reply.part("spans", tables)
        reply.part("files", sorted({*tables, target["path"]} & set(own)))

    try:
        reply.part("inputs", text)
        confirming.run_modes(targets.BuiltTarget(maker(subject), call, text), request, seen, note)
    except targets.ProblemError as problem:
        reply.part("problem", {"phase": problem.phase, "failure": encode(problem.failure)})


class _Seen(Reply):
    """Forwards everything, and remembers the files with lines that ran."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.lines: set[str] = set()

    def send(self, kind: str, value: Any) -> None:
        if kind == "part" and value[0] == "eager":
            self.lines = {path for path, lines in value[1]["lines"].items() if lines}
        self._reply.send(kind, value)


def _tables(own: Sequence[str], runs: Sequence[Run], ran: set[str]) -> dict[str, list[tuple[int, ...]]]:
    """Return the operations in each reached file, as positions and a bit mask of the runs that traced them."""
    traced = [
        {str(Path(file).resolve()): set(found) for file, found in run.traced.items()} if run else {} for run in runs
    ]
    tables: dict[str, list[tuple[int, ...]]] = {}
    for path in own:
        found = [of_run.get(path, set()) for of_run in traced]
        if path in ran or any(found):
            with tokenize.open(path) as file:
                known = spans.operations_of(file.read(), path)
            tables[path] = [(*span, sum((span in of_run) << at for at, of_run in enumerate(found))) for span in known]
    return tables


def maker(subject: Any) -> Callable[[], Any]:
    """Return a maker that copies the subject. If it cannot be copied, the maker always returns the subject itself."""
    if isinstance(subject, nn.Module):
        with contextlib.suppress(Exception):
            copy.deepcopy(subject)
            return lambda: copy.deepcopy(subject)
    return lambda: subject
