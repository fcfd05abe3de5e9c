"""What every test shares: with `--no-skips`, a test that skips has failed.

A machine without torch, without git or without a network would otherwise turn the suite green by skipping what matters.
A test that may rightly skip (another operating system, a kernel without Landlock) says so: `@pytest.mark.may_skip`.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest


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
