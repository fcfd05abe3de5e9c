"""Run selected tests with pytest. Each function runs once before any is repeated with other parameters."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ..inputs.large_models import limited_parameters, too_large
from ..source import stand_ins
from .calls import Harvest
from .processor_time import limited

# The processor time for a single test, and the time for which it may wait, in seconds, excluding confirmations.
_SECONDS, _WAITING = 10.0, 5.0
# How many of the largest models a test may make at once.
_MODELS = 4
# The number of examples for a property test that does not set one.
_EXAMPLES = 20
_BROKEN = re.compile(r"^ImportError while loading conftest '(.*)'", re.MULTILINE)
_MISSING = re.compile(r"ModuleNotFoundError: No module named '(\w+)")
_INTERNAL = "INTERNALERROR>"
_OPTIONS = "-q -s -p no:cacheprovider -p no:randomly --continue-on-collection-errors --no-header -W ignore"


def run_tests(tests: Sequence[Mapping[str, Any]], folder: str, harvest: Harvest, skipped: int) -> int:
    """Run tests in the given order, except for the first `skipped`. Each is `{"path", "name", "turn"}`.

    Names look like `test_one`, `All::test_two` or `All::*`. Returns how many tests there are.
    """
    try:
        import pytest
    except ImportError:
        harvest.note("pytest", f"it is not installed for {sys.executable}")
        return 0
    harvest.stop = pytest.exit.Exception("enough")
    pytest.hookimpl(hookwrapper=True)(_Plugin.pytest_runtest_protocol)
    pytest.hookimpl(tryfirst=True)(_Plugin.pytest_keyboard_interrupt)
    _limit_hypothesis()
    _limit_progress_bars()
    # The configured options are meant for whole runs: coverage, multiple processes, reports.
    paths = list(dict.fromkeys(one["path"] for one in tests))
    options = [*_OPTIONS.split(), "-o", "addopts=", "--rootdir", folder]
    plugin = _Plugin(tests, harvest, skipped)
    # If an installed plugin keeps pytest from starting, the tests may do without all of them.
    for plugins in ({}, {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}):
        os.environ.update(plugins)
        why: str | None = ""
        while why is not None and paths and not plugin.collected:
            why, broken = _failure_of(pytest, [*options, *paths], plugin)
            if why is not None and stand_ins.provide(_missing_in(why)):
                continue
            if why is not None:
                harvest.note("pytest", why)
            # A file that sets up tests only concerns the tests in its folder.
            left = [path for path in paths if broken is None or broken not in Path(path).parents]
            if len(left) == len(paths):
                break
            paths = left
        if why is None or plugin.collected or not paths:
            break
    if plugin.retried and not harvest.over:
        again = [one for one in tests if one["path"] in plugin.retried]
        return plugin.count + run_tests(again, folder, harvest, max(skipped - plugin.count, 0))
    return plugin.count


def _missing_in(text: str) -> str:
    """Return the package that an error says is not installed, or an empty string."""
    found = _MISSING.search(text)
    return found[1] if found is not None else ""


def _failure_of(pytest: Any, arguments: list[str], plugin: _Plugin) -> tuple[str | None, Path | None]:
    """Run pytest. Return the reason if it could not start, and the folder of a `conftest.py` that it cannot import."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            status = pytest.main(arguments, plugins=[plugin])
    except BaseException as error:  # noqa: BLE001 - plugins and conftest.py may raise anything
        return f"{type(error).__name__}: {error}", None
    if status in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR):
        broken = _BROKEN.search(errors.getvalue())
        folder = Path(broken[1]).resolve().parent if broken is not None else None
        return _first_error(errors.getvalue()) or str(status), folder
    return None, None


def _limit_hypothesis() -> None:
    """Make property tests run only a few examples, without a deadline, and stop at the first failure."""
    try:
        from hypothesis import HealthCheck, Phase, settings
    except ImportError:
        return
    settings.register_profile(
        "dynalint",
        max_examples=_EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("dynalint")


def _limit_progress_bars() -> None:
    """Keep progress bars from starting threads, because a process with threads cannot be forked."""
    with contextlib.suppress(Exception):
        from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

        tqdm.monitor_interval = 0


class _Plugin:
    """Selects from the collected tests, and records failures."""

    def __init__(self, tests: Sequence[Mapping[str, Any]], harvest: Harvest, skipped: int) -> None:
        self._known = set(stand_ins.names())
        self.collected = False
        self.count = 0
        self.retried: set[str] = set()
        self._skipped = skipped
        self._rank = {(one["path"], one["name"]): (one["turn"], at) for at, one in enumerate(tests)}
        self._first: set[str] = set()
        self._harvest = harvest

    def pytest_sessionstart(self, session: Any) -> None:
        """Note the folder that the paths in reports are relative to."""
        self._folder = session.config.rootpath

    def pytest_keyboard_interrupt(self, excinfo: Any) -> None:
        """Keep only the last frame if the session ends early, because pytest parses the source code of each frame."""
        excinfo.traceback = excinfo.traceback[-1:]

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep the selected tests, and run each function once before any is repeated with other parameters."""
        self.collected = True
        rounds: Counter[tuple[str, str]] = Counter()
        order = []
        for item in items:
            key = next((one for one in _names_of(item) if one in self._rank), None)
            if key is not None:
                name = next(_names_of(item))
                order.append(((rounds[name], self._rank[key]), item))
                if rounds[name] == self._rank[key][0] == 0:
                    self._first.add(item.nodeid)
                rounds[name] += 1
        self.count = len(order)
        items[:] = [item for _, item in sorted(order, key=lambda one: one[0])][self._skipped :]
        self._harvest.begin()

    def pytest_collectreport(self, report: Any) -> None:
        """Record a file that cannot be imported, or run it again with a stand-in for a missing package."""
        missing = _missing_in(str(report.longrepr)) if report.failed else ""
        if stand_ins.provide(missing) or missing in set(stand_ins.names()) - self._known:
            failed = Path(self._folder, report.fspath).resolve()
            self.retried.update(path for path, _ in self._rank if Path(path).is_relative_to(failed))
        elif report.failed:
            self._note(report.nodeid, str(report.longrepr))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Record a test that fails or has a missing fixture."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self._note(report.nodeid, crash.message if crash is not None else str(report.longrepr))

    def _note(self, where: str, text: str) -> None:
        self._harvest.note(where, _first_error(text))

    def pytest_runtest_protocol(self, item: Any) -> Generator[None, Any, Any]:
        """Run a test with its fixtures, within its time limit."""
        self._harvest.start(item.nodeid)
        if item.nodeid in self._first:
            # This test gets its time no matter how long another target's best test took without new calls.
            self._harvest.begin()
        torch.manual_seed(0)
        with limited(_SECONDS, _WAITING), limited_parameters(_MODELS * too_large()):
            yield

    def pytest_runtest_setup(self) -> None:
        """End the session before a test that is no longer needed."""
        if self._harvest.over:
            raise self._harvest.stop


def _first_error(text: str) -> str:
    """Return the first line that pytest marks as an error, the exception of an internal error, or the first line.

    If an exception's message starts on a line of its own, the result is the exception and the message's first words.
    """
    lines = text.splitlines()
    marked = [line.removeprefix("E").strip() for line in lines if line.startswith("E ")]
    internal = [line.removeprefix(_INTERNAL).strip() for line in lines if line.startswith(_INTERNAL)]
    first, *others = marked or internal[::-1] or lines or [""]
    message = next((line.strip() for line in others if any(map(str.isalnum, line))), "")
    return f"{first.rstrip()} {message}" if first.rstrip().endswith("Error:") else first


def _names_of(item: Any) -> Iterator[tuple[str, str]]:
    """Yield the keys that may select a test: its own name, the function that it is generated from, or its class."""
    path = str(Path(item.path).resolve())
    owner = f"{item.cls.__name__}::" if getattr(item, "cls", None) is not None else ""
    yield path, f"{owner}{getattr(item, 'originalname', None) or item.name}"
    written = inspect.unwrap(getattr(item.obj, "place_as", item.obj))
    yield path, f"{owner}{getattr(written, '__name__', '')}"
    yield path, f"{owner}*"
