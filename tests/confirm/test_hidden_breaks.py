"""What shows once the break that leaves a frame to eager is taken out of the way."""

from __future__ import annotations

import gc
import linecache
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from dynalint.confirm.worker.dynamo import runs
from dynalint.confirm.worker.dynamo.hidden_breaks import JudgedFile, latent_run
from dynalint.confirm.worker.dynamo.records import Run
from dynalint.confirm.worker.source.substitutes import OperationPlace, Substitute, rewritten

pytestmark = [pytest.mark.dynamo, pytest.mark.usefixtures("torch_is_no_burden")]

SOURCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        total = 0.0
        for i in range(3):
            if x.sum() > 0:  # first
                x = x + 1
            total += x.max().item()  # second
            print("step", i)  # third
        if not (x.mean() > 0):  # fourth
            x = x * 2
        return x * total


def closes_over(scale):
    def inner(x):
        for i in range(2):
            if (x * scale).sum() > 0:
                x = x + 1
            print("after")  # closed over
        return x
    return inner


def sized(x):
    y = x.view(int(x.sum() * 0) + 2, -1)  # sized
    if y.sum() > 0:  # skipped
        y = y + 1
    return y


def whole(x):
    return x + 1
"""


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("latent") / "code.py"
    path.write_text(SOURCE)
    module: dict[str, Any] = {"__name__": "latent_code"}
    exec(compile(SOURCE, str(path), "exec"), module)
    linecache.checkcache(str(path))
    return {**module, "__file__": str(path)}


def heard(names: Mapping[str, Any], make: Callable[[], Callable[..., Any]]) -> Run | None:
    text = Path(names["__file__"]).read_text()
    spots = [_spot(text, one) for one in ("x.sum() > 0", "x.max().item()", 'print("step", i)', "(x * scale).sum() > 0")]
    asked = {names["__file__"]: JudgedFile(text, spots)}
    calls = [((torch.ones(2, 3),), {}), ((-torch.ones(2, 3),), {})]
    seen = runs.default_run(make, calls, asked)
    return latent_run(make, calls, seen, asked, 60.0, lambda _: True)


def _spot(text: str, words: str) -> tuple[int, int, int, int]:
    number, line = next((number, line) for number, line in enumerate(text.splitlines(), 1) if words in line)
    start = line.index(words)
    return number, start, number, start + len(words)


def line(words: str) -> int:
    return SOURCE.splitlines().index(next(text for text in SOURCE.splitlines() if words in text)) + 1


def broken(run: Run | None) -> set[int]:
    return set() if run is None else {one.stack[-1].line for one in run.breaks}


def test_each_break_shows_once_those_before_it_are_gone(
    names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run = heard(names, names["Model"])
    assert run is not None
    assert run.error is None
    assert broken(run) == {line("# second"), line("# third"), line("# fourth")}
    assert "step 2" in capsys.readouterr().out


def test_what_is_skipped_for_want_of_a_tensor_shows_too(names: dict[str, Any]) -> None:
    asked = {names["__file__"]: JudgedFile(Path(names["__file__"]).read_text(), [])}
    calls = [((torch.ones(2, 3),), {})]
    seen = runs.default_run(lambda: names["sized"], calls, asked)
    assert broken(seen) == {line("# sized")}
    run = latent_run(lambda: names["sized"], calls, seen, asked, 60.0, lambda _: True)
    assert broken(run) == {line("# skipped")}


def test_the_code_is_put_back(names: dict[str, Any]) -> None:
    before = names["Model"].forward.__code__
    heard(names, names["Model"])
    assert names["Model"].forward.__code__ is before
    assert not [name for name in names["Model"].forward.__globals__ if "dynalint" in name]


def test_code_that_is_frozen_is_found_too(names: dict[str, Any]) -> None:
    """A fork of a running program freezes what there is before it confirms a call."""
    gc.freeze()
    try:
        assert broken(heard(names, names["Model"])) >= {line("# second")}
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()


def test_a_function_that_closes_over_what_the_break_reads(names: dict[str, Any]) -> None:
    run = heard(names, lambda: names["closes_over"](torch.tensor(2.0)))
    assert broken(run) == {line("# closed over")}


def test_what_hides_nothing_is_not_heard(names: dict[str, Any]) -> None:
    assert heard(names, lambda: names["whole"]) is None


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("    x.a = 1\n    return x.a", 7),
        ("    x.a, y = x\n    return y", 7),
        ("    with x as (y, z):\n        return y", 16),
    ],
)
def test_what_has_no_stand_in_stays(text: str, end: int) -> None:
    names: dict[str, Any] = {"__name__": "standing"}
    text = f"def standing(x):\n{text}\n"
    exec(compile(text, "standing.py", "exec"), names)
    edit = Substitute(0, OperationPlace("standing.py", 2, 4, end))
    with rewritten([edit], {"standing.py": text}, recording=True, names={}) as done:
        assert not done
