"""`dynalint explain` on the command line: what it can be told, and what it says where it cannot go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dynalint.config import Configuration, Overrides
from dynalint.explaining import find_targets

Run = Callable[..., Any]

SEVERAL = """\
from torch import nn

class One(nn.Module):
    def forward(self, x): return x.sum()

class Two(One):
    def forward(self, y):
        print(y.sum())
        return y
"""


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nowhere.py::Model", "no such file: nowhere.py"),
        ("nowhere.model:Model", 'no module "nowhere.model" was found'),
        ("model.py::Modle", 'model.py has no "Modle" (did you mean `Model`?)'),
        ("empty.py", "empty.py contains no nn.Module"),
    ],
)
def test_a_target_that_is_not_there(dynalint: Run, model: Path, target: str, words: str) -> None:
    Path("empty.py").write_text("")
    ran = dynalint("explain", target)
    assert ran.code == 2
    assert words in ran.err
    assert ran.out == ""


@pytest.mark.dynamo
def test_a_file_with_several_models(dynalint: Run, model: Path) -> None:
    Path("several.py").write_text(SEVERAL)
    ran = dynalint("explain", "several.py", "--confirm", "--color", "never")
    assert ran.code == 0, ran.err
    one, two, found, more = ran.out.splitlines()
    assert one.startswith("several:One: 1 graph, 0 graph breaks")
    assert two.startswith("several:Two: 1 graph, 1 graph break, ")
    assert found == "  several.py:8 in Two.forward: DYN401 print-call"
    assert more == "To see one of them in full, run `dynalint explain several.py::One`."
    ran = dynalint("explain", "several.py", "--output-format", "json")
    assert ran.code == 2
    assert "json only supports one; name it, as in several.py::One" in ran.err


def test_explain_runs_code_and_is_told_not_to(dynalint: Run, model: Path) -> None:
    ran = dynalint("explain", "model.py::Model", "--config", 'confirm = "never"')
    assert ran.code == 2
    assert "pass --confirm to run it anyway" in ran.err


@pytest.mark.parametrize("name", ["model.py::Model", "model.py:Model", "model:Model", "model.py"])
def test_a_target_by_any_of_its_names(model: Path, name: str) -> None:
    (target,), options, _ = find_targets(
        name, Configuration(Overrides(isolated=True), frozenset(), Path.cwd()), Path.cwd()
    )
    assert (target.path, target.module, target.qualname) == (model, "model", "Model")
    assert model.parent in options.search


@pytest.mark.dynamo
def test_text_names_graphs_breaks_and_rules(dynalint: Run, model: Path) -> None:
    ran = dynalint("explain", "model.py", "--confirm", "--no-advice", "--color", "never")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("model:Model: ")
    assert "1  model.py:7 in Model.forward\n       if x.sum() > 0:\n" in ran.out
    assert "DYN101 branch-on-tensor" in ran.out
    assert "GB0170 Data-dependent branching" in ran.out


@pytest.mark.dynamo
def test_a_file_to_write_to(dynalint: Run, model: Path) -> None:
    ran = dynalint("explain", "model.py", "--confirm", "--no-advice", "--output-format", "json", "-o", "out.json")
    assert (ran.code, ran.out) == (0, "")
    record = json.loads(Path("out.json").read_text())
    assert record["target"] == "model:Model"
    assert [(one["place"]["line"], one["rule"]["code"]) for one in record["breaks"]] == [(7, "DYN101")]
    ran = dynalint("explain", "model.py", "--confirm", "--no-advice", "-o", "missing/out.txt")
    assert ran.code == 2
    assert "cannot write missing/out.txt" in ran.err
