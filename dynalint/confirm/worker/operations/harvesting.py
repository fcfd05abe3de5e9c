"""The operation that confirms targets on the calls that the project itself makes of them.

The request is one of `confirming` for the file of `target`, and besides:

    wanted     `[{"target", "lines"}]`: what to look for, and the ranges of lines, by file, that it is to reach
    snippets   `[{"where", "code"}]`: code in documentation, the best first
    tests      `[{"path", "names"}]`: functions in files of tests, the best first

Parts of the answer: those of `confirming` for each call that was confirmed, with its number before their names;
`N.call`, `{"targets", "outcome", "seconds"}`, once it has ended; `problems`, pairs of what gave no call and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dynamo import runs
from ..harvesting.calls import Harvest
from ..harvesting.snippets import run_snippets
from ..harvesting.suites import run_tests
from ..process.wire import Reply
from ..source import loading


def harvest(request: Mapping[str, Any], reply: Reply) -> None:
    """Answer one request; nothing is run where no walls hold, for tests may do anything to the machine they run on."""
    if not reply.enclosed:
        return
    runs.trace_own_compiles()
    loading.prepare(request["search"], request["overrides"])
    reply.stage(f"running what calls {request['name']}")
    found = Harvest(request, reply)
    found.install()
    try:
        with found.on_the_cpu:
            if request["snippets"]:
                run_snippets(request["snippets"], _names(request["target"]), found)
            if request["tests"] and not found.over:
                run_tests(request["tests"], request["folder"], found)
    finally:
        reply.part("problems", list(found.problems)[:20])


def _names(target: Mapping[str, str]) -> Mapping[str, Any]:
    """Return what the module of a target binds, nothing where it cannot be imported."""
    try:
        return vars(loading.load_module(target["path"], target["module"]))
    except BaseException:  # noqa: BLE001 - user code; `confirm` tells of it
        return {}
