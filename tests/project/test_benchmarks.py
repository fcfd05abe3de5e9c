"""The benchmarks that users can run: truth made with Dynamo, and the static check held against it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dynalint.findings import Evidence, Finding

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "tiny_vision"


def run(script: str, *arguments: object) -> str:
    command = [sys.executable, str(ROOT / "benchmarks" / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.timeout(700)
def test_truth_is_measured_and_the_static_check_held_against_it(tmp_path: Path) -> None:
    truth = tmp_path / "truth.jsonl"
    run("measure.py", EXAMPLE, truth, "--confirm")
    records = [json.loads(line) for line in truth.read_text().splitlines()]
    broken = {(one["file"], seen["gb"]) for one in records for seen in one["breaks"]}
    assert ("tiny_vision/models.py", "Data-dependent branching") in broken
    (annealed,) = (one for one in records if one["cls"] == "AnnealedClassifier")
    assert annealed["graphs"] == [1, 2, 3]
    report = run("accuracy.py", EXAMPLE, truth)
    assert "1.00 (2/2) of the findings that ran cover a break site" in report


SCALED = """\
import torch
from torch import nn


class Scaled(nn.Module):
    def forward(self, x):
        return x * x.mean().item()


class Picked(nn.Module):
    def forward(self, x):
        return [x[row].sum() for row in x.long().unique()]


TESTCASES = [
    (Scaled, lambda: ([], {}), lambda: ([torch.rand(4, 8)], {})),
    (Picked, lambda: ([], {}), lambda: ([torch.rand(4, 8)], {})),
]
"""


AROUND = """\
from helpers import scaled
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return [scaled(x)[row] for row in x.long().unique(dim=0)] + x.mean().item()
"""
HELPER = """\
def scaled(x):
    return x * x.mean().item()
"""


def test_what_stands_around_the_files_to_fix_is_left_and_is_nothing_new(tmp_path: Path) -> None:
    corpus, written = tmp_path / "corpus", tmp_path / "written"
    for folder in (corpus, written):
        folder.mkdir()
        (folder / "around.py").write_text(AROUND)
        (folder / "helpers.py").write_text(HELPER)
    site = {"gb": "a break", "reason": "", "frames": [[2, "scaled"]]}
    record = {"file": "helpers.py", "cls": "*", "status": "ok", "lines": [2], "breaks": [site]}
    (tmp_path / "truth.jsonl").write_text(json.dumps(record) + "\n")
    options = ("--assume", "--around", "around.py", "--write", written)
    report = run("fixes.py", corpus, tmp_path / "truth.jsonl", *options)
    assert "1 of 1 break sites are repaired" in report
    assert (written / "helpers.py").read_text() != HELPER
    assert (written / "around.py").read_text() == AROUND


@pytest.mark.dynamo
@pytest.mark.long
@pytest.mark.timeout(700)
def test_fixed_files_are_counted_and_run_against_their_originals(tmp_path: Path) -> None:
    (tmp_path / "scaled.py").write_text(SCALED)
    sites = [{"gb": "a break", "reason": "", "frames": [[line, "forward"]]} for line in (7, 12)]
    record = {"file": "scaled.py", "cls": "*", "status": "ok", "lines": [7, 12], "breaks": sites}
    (tmp_path / "truth.jsonl").write_text(json.dumps(record) + "\n")
    report = run("fixes.py", tmp_path, tmp_path / "truth.jsonl", "--assume", "--separately", "--rerun")
    assert "1 of 2 break sites are repaired" in report
    assert "1 of 2 break sites have a finding whose fix is declined" in report
    assert "1 of 2 that were run again in changed files no longer break" in report
    assert "2 of 2 cases in 1 changed files ran; 0 differ" in report


def test_probes_are_called_and_held_against_their_outcomes(tmp_path: Path) -> None:
    programs = {
        "branch": "def f(x):\n    if x.sum() > 0:\n        return x\n    return -x\n",
        "told": "def f(x):\n    print(x.shape)\n    return x\n",
        "unseen": "def f(x, callback):\n    return callback(x)\n",
        "fine": "class M(nn.Module):\n    def forward(self, x):\n        return x * 2\n",
        "hidden": "def f(x):\n    return x\n",
        "varied": "def f(x):\n    return x\n",
    }
    outcomes = {"branch": ("break", "GB0170"), "unseen": ("break", "GB0170"), "hidden": ("break", "GB0000")}
    (tmp_path / "probes").mkdir()
    with (tmp_path / "probes.jsonl").open("w") as records:
        for name, text in programs.items():
            outcome, *gb = outcomes.get(name, ("recompile-varied-inputs" if name == "varied" else "ok",))
            (tmp_path / "probes" / f"{name}.py").write_text(f"import torch\nfrom torch import nn\n\n\n{text}")
            print(json.dumps({"id": name, "pattern": name, "outcome": outcome, "gb": gb}), file=records)
    report = run("probes.py", tmp_path, "--list")
    assert "0.500 (1/2) of those that break or recompile" in report
    assert "1 of 2 that do neither" in report
    assert "missed   unseen: unseen (break)" in report
    assert "flagged  told: DYN401" in report


@pytest.mark.dynamo
@pytest.mark.long
@pytest.mark.timeout(700)
def test_running_again_tells_a_file_that_computes_something_else(tmp_path: Path) -> None:
    original, wrong = tmp_path / "scaled.py", tmp_path / "wrong.py"
    original.write_text(SCALED)
    wrong.write_text(SCALED.replace("x.mean().item()", "x.mean()"))
    answer = json.loads(run("rerun.py", original, wrong))
    ((case, what),) = answer["different"]
    assert case == "0:Scaled"
    assert what.startswith("training, call 1: gradient of input 0")
    assert [7, "Unsupported Tensor.item() call with capture_scalar_outputs=False"] in answer["before"]
    assert all(line != 7 for line, _ in answer["after"])


def test_only_claims_of_breaks_can_be_contradicted_by_breaks() -> None:
    spec = importlib.util.spec_from_file_location("inputs", ROOT / "benchmarks" / "inputs.py")
    assert spec is not None
    assert spec.loader is not None
    inputs = importlib.util.module_from_spec(spec)
    sys.modules["inputs"] = inputs
    spec.loader.exec_module(inputs)
    truth = [{"file": "a.py", "lines": [2, 3], "breaks": [{"frames": [[3, "forward"]]}]}]
    base = Finding("a.py", 2, 1, 2, 9, "DYN101", "test", "graph-break", "error", "", evidence=Evidence("confirmed"))
    refuted = replace(base, line=3, end_line=3, evidence=Evidence("refuted"))
    others = [replace(base, category=category) for category in ("recompile", "miscompile", "advice")]
    sentences = list(inputs.contradicted([base, refuted, *others], truth))
    assert [sentence.partition(":")[0] for sentence in sentences] == [
        "confirmed, and ran whole in truth",
        "refuted, and broke in truth",
    ]
