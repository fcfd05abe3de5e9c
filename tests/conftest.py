"""What every test shares: with `--no-skips`, a test that skips has failed.

A machine without torch, without git or without a network would otherwise turn the suite green by skipping what matters.
A test that may rightly skip (another operating system, a kernel without Landlock) says so: `@pytest.mark.may_skip`.

To import torch is what takes most of the time of many tests: those of a module share the worker's server.
"""

from __future__ import annotations

import gc
import importlib
import logging
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from dynalint.confirm.servers import keeping_a_server


@pytest.fixture(autouse=True, scope="session")
def folders_of_nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have no settings, trust or verdicts of whoever runs the tests count, and leave none."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CONFIG", "STATE", "CACHE"):
            patch.setenv(f"XDG_{name}_HOME", str(tmp_path_factory.mktemp(name.lower())))
        yield


@pytest.fixture(autouse=True, scope="module")
def kept_server() -> Iterator[None]:
    """Keep a server of the worker from one test of a module to the next: it never runs the code of either."""
    with keeping_a_server():
        yield


@pytest.fixture(scope="module")
def torch_is_no_burden() -> None:
    """Leave out what the worker leaves out; keep the tests and torch from the garbage collections that compiles ask for.

    Torch makes records of its structured trace where anybody listens, and pytest listens to every logger.
    """
    internals: Any = importlib.import_module("torch._logging._internal")
    internals.trace_log = logging.getLogger("dynalint.unheard")
    importlib.import_module("dynalint.testing.running")
    warm = importlib.import_module("dynalint.confirm.worker.warm")
    warm.leave_out_measures()
    warm.seed_what_is_there()
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="count a skipped test as failed, unless it may skip")


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
    """Turn a skip into a failure that names the reason, where skips are not allowed."""
    if report.skipped and config.getoption("--no-skips"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} must not be skipped here: {reason}"
