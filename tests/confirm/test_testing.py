"""`assert_compiles` and the pytest plugin on code of a user's: what fails, and what the failure says."""

from __future__ import annotations

import importlib
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest
import torch

from dynalint.testing import assert_compiles

pytestmark = pytest.mark.dynamo

pytest_plugins = ["pytester"]

MODEL = """
    import torch
    from torch import nn


    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            h = self.linear(x)
            if h.sum() > 0:
                return torch.relu(h)
            else:
                return torch.tanh(h)


    class Clean(nn.Module):
        def forward(self, x, scale=1.0):
            return x.cos() * scale


    def peak(x):
        return x / x.abs().max().item()


    class Peak(nn.Module):
        def forward(self, x):
            return peak(x).cos()


    class Text(nn.Module):
        def forward(self, x):
            return x * int(f"{x.shape[0]}")


    class Prints(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Clean()

        def forward(self, x):
            print("hello")
            return self.part(x)
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "users_model.py").write_text(textwrap.dedent(MODEL).lstrip("\n"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "users_model", raising=False)
    return importlib.import_module("users_model")


def test_a_line_that_breaks_in_two_frames_counts_once(model: ModuleType) -> None:
    with pytest.raises(AssertionError, match="3 graphs and 1 graph break, but only 1 graph is allowed"):
        assert_compiles(model.Peak(), torch.ones(2, 4))


def test_a_failure_shows_the_line_the_reason_the_hint_and_the_rewrite(model: ModuleType) -> None:
    with pytest.raises(AssertionError) as raised:
        assert_compiles(model.Gate(), torch.ones(2, 4))
    text = str(raised.value)
    assert text.startswith("2 graphs and 1 graph break, but only 1 graph is allowed:")
    for part in (
        "--> users_model.py:12:12",
        "12 |         if h.sum() > 0:",
        "confirmed by torch",
        "GB0170",
        "Hint: Use `torch.cond`",
        "-        if h.sum() > 0:",
        "+        return torch.where(h.sum() > 0, torch.relu(h), torch.tanh(h))",
    ):
        assert part in text


def test_batch_sizes_may_take_one_more_compile_and_no_other(model: ModuleType) -> None:
    x = torch.ones(2, 3)
    assert_compiles(model.Clean(), x, scale=2.0, batch_sizes=[3, 4, 7])
    assert_compiles(model.Text(), x)
    with pytest.raises(AssertionError, match=r"calls with other batch sizes compile 3 more graphs, but only 1 is"):
        assert_compiles(model.Text(), x, batch_sizes=[3, 4, 5])
    assert_compiles(model.Text(), x, batch_sizes=[3, 4, 5], max_recompiles=2)


def test_other_backends_compile_the_graphs(model: ModuleType) -> None:
    assert_compiles(model.Clean(), torch.ones(2), backend="aot_eager")


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(model=textwrap.dedent(MODEL).lstrip("\n"))
    pytester.makeini("[pytest]")
    pytester.makepyfile(
        test_model="""
        import pytest
        import torch
        from model import Clean, Gate

        def test_gate():
            Gate()(torch.ones(2, 4))

        def test_clean():
            Clean()(torch.ones(2, 4))

        @pytest.mark.dynalint_compiles(max_graphs=2)
        def test_split():
            Gate()(torch.ones(2, 4))

        @pytest.mark.dynalint_compiles
        def test_marked():
            Gate()(torch.ones(2, 4))

        @pytest.mark.dynalint_compiles
        def test_nothing():
            pass
        """
    )
    return pytester


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.may_skip
@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("options", [pytest.param((), marks=pytest.mark.long), ("-n", "2")])
def test_marked_tests_must_compile_what_they_call(suite: pytest.Pytester, options: tuple[str, ...]) -> None:
    ran = suite.runpytest_subprocess(*options)
    ran.assert_outcomes(passed=3, failed=2)
    text = ran.stdout.str()
    assert "the traced call Gate(float32[2, 4]): 2 graphs and 1 graph break, but only 1 graph is allowed:" in text
    assert "+        return torch.where(" in text
    assert "the test does not call any module or compiled function in this project" in text


@pytest.mark.long
@pytest.mark.may_skip
@pytest.mark.usefixtures("sandboxed")
def test_the_option_holds_all_tests_to_it(suite: pytest.Pytester) -> None:
    ran = suite.runpytest_subprocess("--dynalint-compiles")
    ran.assert_outcomes(passed=2, failed=3)
    assert "dynalint: 2 kinds of calls compiled" in ran.stdout.str()
