"""Shared by all tests: `--no-skips` makes skipped tests fail, and failures are named as they happen.

Without it, a machine without torch, git or a network would pass by skipping the tests that matter. A test that may be
skipped (another operating system, a kernel without Landlock) is marked `@pytest.mark.may_skip`.

`--half static` runs the tests that need no torch, `--half dynamo` those marked `dynamo`. Importing torch takes most of
the time of many tests, so all tests of a process share one worker server.
"""

from __future__ import annotations

import gc
import importlib
import logging
import re
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from dynalint.confirm import servers

# How long an example takes says something about the machine, which may be busy, and nothing about dynalint.
settings.register_profile("dynalint", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dynalint")

# A module that imports torch at the top must not even be imported where there is none.
_NEEDS_TORCH = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.dynamo\b", re.MULTILINE)

# How long tests take as a rule, each of all that are marked alike.
_SECONDS = {"slow": 5.0, "dynamo": 0.3, "static": 0.02}


@pytest.fixture(autouse=True, scope="session")
def folders_of_nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the settings, trust and verdicts of the user who runs the tests out of them, and leave none behind.

    Nor is there an active environment, whatever runs them: all tests can share processes that are forked or kept.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            patch.delenv(name, raising=False)
        for name in ("CONFIG", "STATE", "CACHE"):
            patch.setenv(f"XDG_{name}_HOME", str(tmp_path_factory.mktemp(name.lower())))
        yield


@pytest.fixture(autouse=True, scope="session")
def folder_of_nothing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Start in an empty folder: in this project, each check of a text would look for callers in all its files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("nothing"))
        yield


@pytest.fixture(autouse=True, scope="session")
def kept_server() -> Iterator[None]:
    """Keep a worker server between tests; the server itself never runs the code of any."""
    with servers.keeping_a_server():
        yield


@pytest.fixture(scope="module")
def no_kept_server() -> Iterator[None]:
    """Do not keep a server: for tests of servers and of processes left behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(servers, "_keepers", 0)
        while servers._waiting:
            servers._waiting.pop().end()
        yield


@pytest.fixture(scope="module")
def torch_is_no_burden() -> None:
    """Leave out what the worker leaves out; keep the tests and torch from the garbage collections that compiles ask for.

    torch builds structured trace records if any logger handles them, and pytest handles all loggers.
    """
    internals: Any = importlib.import_module("torch._logging._internal")
    internals.trace_log = logging.getLogger("dynalint.unheard")
    importlib.import_module("dynalint.testing.running")
    warm = importlib.import_module("dynalint.confirm.worker.process.warmup")
    warm.leave_out_measures()
    warm.seed_what_is_there()
    gc.collect()
    gc.freeze()


class AtOnce:
    """Names each failed test immediately, with the last line of its error. The full report comes at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            reason = report.longreprtext.strip().rpartition("\n")[2]
            terminal.ensure_newline()
            terminal.write_line(f"FAILED {report.nodeid} ({report.when}): {reason}", red=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="count a skipped test as failed, unless it may skip")
    parser.addoption("--half", choices=["static", "dynamo"], help="run what needs no torch, or the rest")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # with xdist, the main process reports
        config.pluginmanager.register(AtOnce(config), "at-once")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.getoption("--half") == "static" and collection_path.suffix == ".py":
        return True if _NEEDS_TORCH.search(collection_path.read_text(encoding="utf-8")) else None
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    half = config.getoption("--half")
    config.hook.pytest_deselected(items=[item for item in items if half not in (None, _half(item))])
    items[:] = [item for item in items if half in (None, _half(item))]
    # Each file runs in one process. Those that take longest come first, so that all processes stay busy until the end.
    seconds: defaultdict[Path, float] = defaultdict(float)
    for item in items:
        slow = item.get_closest_marker("slow") is not None
        seconds[item.path] += _SECONDS["slow" if slow else _half(item)]
    items.sort(key=lambda item: -seconds[item.path])


def _half(item: pytest.Item) -> str:
    marked = any(item.get_closest_marker(name) is not None for name in ("dynamo", "runs_dynamo"))
    return "dynamo" if marked or "torch_is_no_burden" in getattr(item, "fixturenames", ()) else "static"


def pytest_collection_finish(session: pytest.Session) -> None:
    """Collect garbage less often, and never look through the tests themselves: it took a sixth of the time.

    What torch leaves behind has to go sooner.
    """
    gc.freeze()
    gc.set_threshold(100_000 if session.config.getoption("--half") == "static" else 10_000)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    expected_failure = hasattr(report, "wasxfail")
    if not expected_failure and item.get_closest_marker("may_skip") is None:
        _fail_if_skipped(item.config, report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_if_skipped(collector.config, report)
    return report


def _fail_if_skipped(config: pytest.Config, report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure that names the reason, unless skips are allowed."""
    if report.skipped and config.getoption("--no-skips"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} must not be skipped here: {reason}"
