"""Run the project's tests on a copy of the project in the worker's sandbox, and collect the results."""

from __future__ import annotations

import base64
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dynalint.config.settings import DEFAULT_EXCLUDE
from dynalint.confirm.client import Answer, Worker, python_path
from dynalint.confirm.options import ConfirmOptions
from dynalint.confirm.requests import worker_options
from dynalint.errors import DynalintError
from dynalint.projects.reading import project_root

_HOOK = Path(__file__).parent.parent / "confirm" / "hook"
# Tests that do nothing for this many seconds are ended, because some wait forever in the sandbox.
_IDLE = 120.0

Function = tuple[str, int]
"""A function, given by its file (relative to the project root) and its first line, including any decorators."""


class NotTestedError(DynalintError):
    """The tests cannot be run. The message is a sentence that explains why."""

    def __init__(self, why: str) -> None:
        super().__init__(f"nothing was fixed because {why}.")


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """The results of a test run: which tests passed, why others failed, and which watched functions each test called.

    `status` is the command's exit status, and `said` is the last line that it printed. If `under_pytest` is true,
    pytest reported the individual tests. Otherwise, the command counts as a single test. `spent` is in seconds.
    `sandboxed` indicates whether the tests ran in a sandbox. `stopped` is the test that did not finish, if any.
    `collected` is how many tests pytest found, including those that it was not asked to run.
    """

    passed: frozenset[str]
    failed: Mapping[str, str]
    called: Mapping[str, frozenset[Function]]
    status: int
    said: str
    under_pytest: bool
    spent: float
    sandboxed: bool
    stopped: str = ""
    collected: int = 0


class SuiteCommand:
    """A command that runs the tests of the project given in `options`.

    Raises NotTestedError if `command` cannot be parsed or is empty.
    """

    def __init__(self, command: str, options: ConfirmOptions) -> None:
        self.command = command
        self._directory = Path(os.path.realpath(options.directory))
        self._root = Path(os.path.realpath(project_root(self._directory)))
        # Running all the tests can take longer than running a model, and the budget does not cover it.
        self._options = replace(options, project=self._root, budget=None)
        try:
            self._words = shlex.split(command)
        except ValueError as fault:
            raise NotTestedError(f"the test command cannot be parsed ({fault})") from None
        if not self._words:
            raise NotTestedError("the test command is empty")

    def below(self, path: Path) -> str:
        """Return `path` relative to the project root, or an empty string if it is outside."""
        real = Path(os.path.realpath(path))
        return real.relative_to(self._root).as_posix() if real.is_relative_to(self._root) else ""

    def run(
        self, texts: Mapping[Path, bytes], only: Sequence[str] | None, watched: Iterable[Function], seconds: float
    ) -> SuiteRun:
        """Run the tests with the files in `texts` changed.

        Under pytest, run only the tests in `only`, unless it is None.

        Raises:
            NotTestedError: If nothing was run.
            WorkerError: If the interpreter cannot be started.
        """
        options = self._options
        given = {**{path: text.encode() for path, text in options.overrides.items()}, **texts}
        lines: dict[str, list[int]] = {}
        for file, line in sorted(watched):
            lines.setdefault(file, []).append(line)
        request = {
            "root": str(self._root),
            "folder": self.below(self._directory),
            "left_out": list(DEFAULT_EXCLUDE),
            "command": self._words,
            "files": {self.below(path): base64.b64encode(data).decode() for path, data in given.items()},
            "search": [self.below(folder) for folder in options.search if self._is_within(folder)],
            "watched": lines,
            "only": None if only is None else list(only),
            "programs": str(options.python.parent) if options.python.is_absolute() else "",
            "hook": str(_HOOK),
            "python_path": python_path(),
        }
        asked = replace(worker_options(replace(options, timeout=seconds)), folders=(str(_HOOK),), idle=_IDLE)
        with Worker(asked) as worker:
            return self._result(worker.ask("operations.testing:run_tests", request))

    def _is_within(self, folder: Path) -> bool:
        return Path(os.path.realpath(folder)).is_relative_to(self._root)

    def _result(self, answer: Answer) -> SuiteRun:
        told = answer.parts.get("tests", {})
        if answer.outcome == "refused":
            walls = f"there is no working sandbox for the tests ({answer.ending['reason']})"
            raise NotTestedError(f"{walls}; use --confirm to run them without a sandbox")
        if told.get("problem"):
            raise NotTestedError(f"`{self.command}` cannot be run: {told['problem']}")
        events = [event for name, part in answer.parts.items() if name.startswith("events") for event in part]
        if not told and not events:
            how = {"timeout": "it took too long", "memory": "it took too much memory"}
            why = how.get(answer.outcome, str(answer.ending.get("reason", answer.outcome)))
            raise NotTestedError(f"`{self.command}` did not run to completion: {why}")
        run = SuiteRun(
            passed=frozenset(),
            failed={},
            called={},
            status=int(told.get("status", -1)),
            said=str(told.get("output", "")),
            under_pytest=False,
            spent=answer.spent,
            sandboxed=bool(answer.walls),
        )
        run = _with_events(run, events)
        if run.under_pytest:
            return run
        return replace(run, passed=frozenset([self.command])) if not run.status else _failed(run, self.command)


def _failed(run: SuiteRun, test: str) -> SuiteRun:
    return replace(run, failed={test: run.said or f"it exited with status {run.status}"})


def _with_events(run: SuiteRun, events: Iterable[Any]) -> SuiteRun:
    """Add the plugin's report to `run`, and ignore anything else that the tests wrote to the same file.

    Raises:
        NotTestedError: If the tests called code from the project itself instead of the copy.
    """
    passed, failed, called = set(), {}, {}
    begun: dict[str, None] = {}
    for event in events:
        match event:
            case ["pytest", str()]:
                run = replace(run, under_pytest=True)
            case ["collected", int(number)]:
                run = replace(run, collected=number)
            case ["uncollected", str(name), str(reason)]:
                failed[name] = reason
            case ["begins", str(name)]:
                begun[name] = None
            case ["ended", str(name), str(how), str(reason), list(calls)]:
                begun.pop(name, None)
                called[name] = frozenset(_functions(calls))
                if how == "failed":
                    failed[name] = reason
                elif how == "passed":
                    passed.add(name)
    for name in begun:
        failed[name] = "it did not finish"
    stopped = next(reversed(begun), "")
    return replace(run, passed=frozenset(passed - failed.keys()), failed=failed, called=called, stopped=stopped)


def _functions(calls: Iterable[Any]) -> Iterable[Function]:
    for call in calls:
        match call:
            case [str(file), int(line), True]:
                yield file, line
            case [str(file), int(), False]:
                raise NotTestedError(
                    f"the tests import {file} from the project itself, not from the copy that they run in; install the "
                    "project in a way that respects `sys.path`, or do not install it"
                )
