"""Find a project's calls to targets, and confirm or record each of them.

The request is the same as for `confirming` with the file of `target`, with these additional keys:

    wanted     `[{"target", "lines"}]`: the targets to look for, and the line ranges to reach, by file
    snippets   `[{"where", "code", "file", "target"}]`: code in documentation, best first, with the file that contains
               it and the target that it names
    later      the same, for code that is only run if the tests leave calls to be found
    resized    files whose findings need calls with another batch size
    tests      `[{"path", "name", "turn"}]`: test functions in order. The first turn has the best test for each target
    after      how many snippets, tests and later snippets to skip, because an earlier request has run them
    record     how many calls to each target to record, so that they can be repeated, or 0 to confirm calls instead.
               Each recorded call runs lines, in any file, that no recorded call before it ran

Parts of the answer: for each call, with its number as a prefix, the parts from `confirming`, or `inputs` and `recipe`
(see `recipes`). `N.call`, `{"targets", "outcome", "seconds"}`, is sent when the call has ended. `problems` contains
pairs of code and the reason why it gave no calls. `missing` are packages that have stand-ins. `started` is how many
snippets and tests have started, including the skipped ones, and a description of the last.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..dynamo import runs
from ..harvesting.calls import Harvest
from ..harvesting.snippets import run_snippets
from ..harvesting.suites import run_tests
from ..process.wire import Reply
from ..source import loading, stand_ins

# Many problems may have the same reason.
_MOST_PROBLEMS = 200
_MOST_LINKS = 2000


def harvest(request: Mapping[str, Any], reply: Reply) -> None:
    """Handle a request. Nothing runs without a sandbox, because tests may do anything to the machine."""
    if not reply.enclosed:
        return
    runs.trace_own_compiles()
    loading.prepare(request["search"], request["overrides"])
    reply.stage(f"running code that calls {request['name']}")
    found = Harvest(request, reply)
    found.install()
    _enter_copy(request["folder"])
    try:
        # Calls are compiled only in forks. Compiling them in the project's own code first would only waste time.
        with found.on_the_cpu, runs.force_eager():
            found.begin()
            snippets, later = request["snippets"], request["later"]
            run_snippets(snippets[request["after"] :], found, patient=not request["tests"])
            found.begin()
            if request["tests"] and not found.over:
                found.started = max(found.started, len(snippets))
                count = run_tests(request["tests"], request["folder"], found, found.started - len(snippets))
                later = later[max(request["after"] - len(snippets) - count, 0) :]
            found.begin()
            run_snippets(later, found, patient=False)
            found.finish()
    finally:
        reply.part("problems", list(found.problems)[:_MOST_PROBLEMS])
        reply.part("missing", stand_ins.names())


def _enter_copy(folder: str) -> None:
    """Change to a copy of the project with links to its files, because tests and examples write to its folders."""
    copy = Path(tempfile.mkdtemp())
    waiting, left = [(Path(folder), copy)], _MOST_LINKS
    for source, target in waiting:
        with contextlib.suppress(OSError):
            entries = list(source.iterdir())
            left -= len(entries)
            for entry in entries:
                made = target / entry.name
                # Hidden folders and those behind many others, such as data, are not written to.
                if left > 0 and entry.is_dir() and not entry.is_symlink() and not entry.name.startswith("."):
                    made.mkdir()
                    waiting.append((entry, made))
                else:
                    made.symlink_to(entry)
    os.chdir(copy)
