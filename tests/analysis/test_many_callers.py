"""Functions that very many others call: what they do is interpreted again for all callers together."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalint.analysis import interpreter
from dynalint.analysis.frame import Context
from dynalint.analysis.interpreter import Interpreter
from tests.analysis.test_many_classes import analysed

HELPER = """\
    import torch

    def check(function, *inputs):
        '''Compare a function with itself.'''
        results = []
        for one in inputs:
            if one is None:
                continue
            if isinstance(one, str):
                raise TypeError(one)
            results.append(one)
        if not results:
            raise ValueError("nothing to check")
        assert len(results) == len(inputs)
        first = function(*results)
        second = function(*results)
        return torch.equal(first, second)
"""


def _runs(folder: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often the helper is interpreted if so many test modules each pass it a function of their own."""
    files = {"helper.py": HELPER}
    folder.mkdir()
    for one in range(number):
        files[f"test_{one:03}.py"] = f"""\
            from helper import check
            import torch

            def own_{one}(x):
                return x + {one}

            def test_it():
                assert check(own_{one}, torch.ones(2))
            """
    runs, original = 0, Interpreter._interpret

    def counted(self: Interpreter, context: Context) -> None:
        nonlocal runs
        runs += context.function.name == "check"
        original(self, context)

    with monkeypatch.context() as patch:
        patch.setattr(interpreter.Interpreter, "_interpret", counted)
        found = analysed(folder, files)
    assert not found.failures
    return runs


def test_a_helper_is_not_interpreted_once_for_each_test_that_calls_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = _runs(tmp_path / "few", 5, monkeypatch), _runs(tmp_path / "many", 120, monkeypatch)
    assert 0 < few == many
