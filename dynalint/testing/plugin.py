"""The pytest plugin. It checks that the code called by tests compiles, and tests rules with their examples.

Pass `--dynalint-compiles`, or mark tests with `dynalint_compiles(max_graphs=1, max_recompiles=0, first_party=None)`, to
confirm the outermost calls to modules and compiled functions in passing tests, as `dynalint trace` does. A test fails
where `assert_compiles` would fail.

To test a rule pack, write

    import pytest

    def test_documentation(dynalint_rule):
        assert not rule_faults(dynalint_rule)

    def test_findings(dynalint_proof):
        dynalint_proof.prove_findings()

    def test_fix(dynalint_proof):
        dynalint_proof.prove_fix()

    @pytest.mark.runs_dynamo
    def test_run(dynalint_proof):
        dynalint_proof.prove_run()

Set the ini option `dynalint_rules` to the packages whose rules to test. By default, all installed rules are tested.
Tests that use `dynalint_proof` and are marked `runs_dynamo` must run. If Dynamo compiled nothing in one of these tests,
because the test was skipped or torch is missing, the session fails.
"""

# ruff: noqa: D103 - pytest documents its hooks

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynalint.rules import Rule
    from dynalint.testing.called import Called
    from dynalint.testing.harness import Proof

_COMPILES = "dynalint_compiles"
_MARK = "runs_dynamo"
_COUNTED = "dynalint_counted"
_PROPERTY = "dynalint_ran"
_SHARED = "_dynalint_proof"


class _Floor:
    """Counts the tests that must run code under Dynamo and those that did, in xdist's main process."""

    def __init__(self) -> None:
        self.wanted: set[str] = set()
        self.ran: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if _COUNTED in report.keywords:
            self.wanted.add(report.nodeid)
            if any(name == _PROPERTY for name, _ in report.user_properties):
                self.ran.add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self.wanted - self.ran and not exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.wanted:
            counts = f"{len(self.ran)} of {len(self.wanted)} examples ran under Dynamo"
            short = self.wanted - self.ran
            terminalreporter.line(f"dynalint: {counts}", red=bool(short), green=not short)
            for name in sorted(short)[:10]:
                terminalreporter.line(f"  did not run: {name}", red=True)


class _Compiles:
    """Checks tests against the limits in their marks. With the command-line option, it checks all tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._all = bool(config.getoption("--dynalint-compiles"))
        self._config = config
        self._called: Called | None = None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if self._all or any(item.get_closest_marker(_COMPILES) is not None for item in session.items):
            from dynalint.testing.called import Called

            self._called = Called(self._config.rootpath)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if self._called is not None:
            self._called.begin()

    @pytest.hookimpl(trylast=True)  # Runs after the test itself, and only if it passed.
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        mark = item.get_closest_marker(_COMPILES)
        if self._called is None or (mark is None and not self._all):
            return
        from dynalint.testing.compiles import Demands

        calls = self._called.calls()
        if mark is not None and not calls:
            pytest.fail("the test does not call any module or compiled function in this project", pytrace=False)
        faults = self._called.faults(calls, Demands.of(**mark.kwargs) if mark is not None else Demands())
        if faults:
            pytest.fail("\n\n".join(faults), pytrace=False)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._called is None:
            return
        number = len(self._called.confirmed)
        terminalreporter.line(f"dynalint: {number} kind{'' if number == 1 else 's'} of calls compiled")
        for name, reason in self._called.problems():
            terminalreporter.line(f"dynalint: {name} not compiled: {reason}")

    def pytest_unconfigure(self) -> None:
        if self._called is not None:
            self._called.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("dynalint").addoption(
        "--dynalint-compiles",
        action="store_true",
        help="fail tests whose calls to modules and compiled functions break the graph or recompile",
    )
    parser.addini(
        "dynalint_rules", "packages whose rules to test (default: all installed rules)", type="args", default=[]
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{_COMPILES}(max_graphs=1, max_recompiles=0, first_party=None): the test fails if the code that it calls does "
        "not compile",
    )
    config.pluginmanager.register(_Compiles(config), "dynalint-compiles")
    config.addinivalue_line("markers", f"{_MARK}: must prove its example under Dynamo, or the session fails")
    config.addinivalue_line("markers", f"{_COUNTED}: set by dynalint on these tests")
    if not hasattr(config, "workerinput"):  # With xdist, the main process counts.
        config.pluginmanager.register(_Floor(), "dynalint-floor")


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.get_closest_marker(_MARK) is not None and "dynalint_proof" in getattr(item, "fixturenames", ()):
        item.add_marker(_COUNTED)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    wanted = {"dynalint_rule", "dynalint_proof"} & set(metafunc.fixturenames)
    if not wanted:
        return
    from dynalint.testing.cases import cases_of

    rules = _rules(metafunc.config)
    if "dynalint_rule" in wanted:
        metafunc.parametrize("dynalint_rule", rules, ids=[rule.code for rule in rules])
    if "dynalint_proof" in wanted:
        cases = cases_of(rules)
        metafunc.parametrize(_SHARED, cases, ids=[case.name for case in cases], indirect=True)


@pytest.fixture(scope="module", name=_SHARED)
def dynalint_shared_proof(request: pytest.FixtureRequest) -> Proof:
    """The proof of a single example, analysed once. pytest therefore runs the tests of an example in succession."""
    from dynalint.rules import all_rules
    from dynalint.testing.harness import Proof

    return Proof(request.param, all_rules())


@pytest.fixture
def dynalint_proof(request: pytest.FixtureRequest, _dynalint_proof: Proof) -> Iterator[Proof]:
    """The proof of a single example. It may have findings from all installed rules."""
    if request.node.get_closest_marker(_MARK) is not None:
        # torch builds structured trace records if any logger handles them, and pytest handles all loggers.
        internals: Any = importlib.import_module("torch._logging._internal")
        internals.trace_log = logging.getLogger("dynalint.unheard")
    _dynalint_proof.ran = False  # by this test
    yield _dynalint_proof
    if _dynalint_proof.ran:
        request.node.user_properties.append((_PROPERTY, True))


def _rules(config: pytest.Config) -> list[Rule]:
    from dynalint.rules import all_rules

    packages = tuple(config.getini("dynalint_rules"))
    return [
        rule
        for rule in all_rules()
        if not packages or any(f"{type(rule).__module__}.".startswith(f"{package}.") for package in packages)
    ]
