"""The benchmarks that users can run: truth made with Dynamo, and the static check held against it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "tiny_vision"


def run(script: str, *arguments: object) -> str:
    command = [sys.executable, str(ROOT / "benchmarks" / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
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
