"""A pytest plugin that reports which tests ran, how each test ended, and which watched functions it called.

`dynalint fix --test` loads it into the project's pytest, under any version of Python. It appends JSON lines to a file
and writes each line at once, so that multiple processes can report at the same time.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

_SETTINGS: dict[str, Any] = json.loads(Path(os.environ["DYNALINT_SUITE"]).read_bytes())
# For each file name in code objects: the file's name in the project, whether it belongs to the copy, and its lines.
_WATCHED: dict[str, tuple[str, bool, set[int]]] = {
    str(Path(_SETTINGS[base]) / file): (file, base == "copy", set(lines))
    for file, lines in _SETTINGS["watched"].items()
    for base in ("root", "copy")
}
_LONGEST = 300
_TOOL = 4


class _Probe:
    """Records which watched functions are called. A function is watched if it starts on one of the watched lines."""

    def __init__(self) -> None:
        self.called: set[tuple[str, int, bool]] = set()
        if sys.version_info >= (3, 12):
            events = sys.monitoring.events
            sys.monitoring.use_tool_id(_TOOL, "dynalint")
            sys.monitoring.register_callback(_TOOL, events.PY_START, self._starts)
            sys.monitoring.set_events(_TOOL, events.PY_START)

    def begin(self) -> None:
        """Start recording calls."""
        self.called = set()
        if sys.version_info >= (3, 12):
            sys.monitoring.restart_events()
        else:
            threading.setprofile(self._profiles)
            sys.setprofile(self._profiles)

    def end(self) -> None:
        """Stop recording calls."""
        if sys.version_info < (3, 12):
            sys.setprofile(None)
            threading.setprofile(None)

    def _starts(self, code: CodeType, offset: int) -> Any:
        self._note(code)
        if sys.version_info >= (3, 12):
            return sys.monitoring.DISABLE
        return None

    def _profiles(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            self._note(frame.f_code)

    def _note(self, code: CodeType) -> None:
        file, copied, lines = _WATCHED.get(code.co_filename, ("", False, ()))
        if code.co_firstlineno in lines:
            self.called.add((file, code.co_firstlineno, copied))


_probe = _Probe()
# The calls that each fixture made. A fixture with a wider scope is set up during one test and used by other tests.
_by_fixture: dict[int, set[tuple[str, int, bool]]] = {}
_outcome: dict[str, str] = {}


def _write(*event: object) -> None:
    file = os.open(_SETTINGS["events"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps(event).encode() + b"\n")
    finally:
        os.close(file)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Run all tests that can be collected, even if some fail, without the plugins that the sandbox keeps from starting.

    For example, some open a socket to talk to other processes, even if there are none.
    """
    config.option.maxfail = 0
    config.option.continue_on_collection_errors = True
    hooks: Any = config.hook.pytest_configure.get_hookimpls()  # Their type forbids the assignment.
    for hook in hooks:
        hook.function = _unless_denied(hook, config.pluginmanager)


def _unless_denied(hook: Any, plugins: pytest.PytestPluginManager) -> Any:
    def configured(*arguments: Any) -> None:
        try:
            configure(*arguments)
        except PermissionError:
            plugins.unregister(hook.plugin)

    configure = hook.function
    return configured


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Report how many tests there are, and deselect all except those in `only`, if it is given."""
    _write("collected", len(items))
    if _SETTINGS["only"] is not None:
        only = set(_SETTINGS["only"])
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in only])
        items[:] = [item for item in items if item.nodeid in only]


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Report a file that cannot be collected."""
    if report.failed:
        _write("uncollected", report.nodeid, _last_line(report.longreprtext))


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Iterator[None]:
    """Record the calls that a fixture makes."""
    before, _probe.called = _probe.called, set()
    yield
    _by_fixture[id(fixturedef)] = _probe.called
    _probe.called = before | _probe.called


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Report when a test begins and when it has ended."""
    _write("begins", item.nodeid)
    _outcome.clear()
    _seed()
    _probe.begin()
    yield
    _probe.end()
    called = set(_probe.called)
    info = getattr(item, "_fixtureinfo", None)
    for definitions in getattr(info, "name2fixturedefs", {}).values():
        for definition in definitions:
            called |= _by_fixture.get(id(definition), set())
    failed = _outcome.get("failed")
    how = "failed" if failed is not None else "passed" if "passed" in _outcome else "skipped"
    _write("ended", item.nodeid, how, failed or "", sorted(called))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Iterator[None]:
    """Record the outcome of a test phase."""
    report: pytest.TestReport = (yield).get_result()  # type: ignore[attr-defined]
    if report.failed:
        _outcome.setdefault(
            "failed", _last_line(report.longreprtext) if call.excinfo is None else _message(call.excinfo)
        )
    elif report.when == "call" and report.passed:
        _outcome["passed"] = ""


def _message(raised: pytest.ExceptionInfo[BaseException]) -> str:
    return raised.exconly(tryshort=True).partition("\n")[0][:_LONGEST]


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2].removeprefix("E ").strip()[:_LONGEST]


def _seed() -> None:
    """Give each test the same random numbers, regardless of the tests that ran before it."""
    random.seed(0)
    for name, seed in (("numpy", "random.seed"), ("torch", "manual_seed")):
        found: Any = sys.modules.get(name)
        for part in seed.split("."):
            found = getattr(found, part, None)
        if callable(found):
            found(0)


# Report this at import, because pytest does not call plugin hooks if it rejects its command line.
_write("pytest", pytest.__version__)
