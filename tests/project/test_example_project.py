"""The example project does what its README says: three classifiers with a line each, one of them twice, the rest silent."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.dynamo

ROOT = Path(__file__).resolve().parents[2]
FLAWS = [
    ("tiny_vision/models.py", "AnnealedClassifier.forward", "recompile"),
    ("tiny_vision/models.py", "ExposureClassifier.forward", "graph-break"),
    ("tiny_vision/scaling.py", "to_unit_peak", "advice"),
    ("tiny_vision/scaling.py", "to_unit_peak", "graph-break"),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns(".dynalint_cache", "__pycache__")
    return Path(shutil.copytree(ROOT / "examples" / "tiny_vision", tmp_path / "tiny_vision", ignore=ignored))


def test_reading_finds_the_flaws_and_nothing_else(dynalint: Callable[..., Any], project: Path) -> None:
    findings = dynalint("check", "--static", "--output-format", "json", cwd=project).findings
    assert sorted((one["path"], one["function"], one["category"]) for one in findings) == FLAWS
    (helper,) = (one for one in findings if one["code"] == "DYN201")
    assert helper["region"] == ["PeakClassifier.forward", "to_unit_peak"]


@pytest.mark.long
def test_every_fix_is_verified_and_leaves_nothing(confirming: Callable[..., Any], project: Path) -> None:
    applied = confirming("fix", "--apply", "--confirm", cwd=project)
    assert applied.code == 0, applied.out + applied.err
    assert "3 verified by running the code" in applied.err
    checked = confirming("check", "--confirm", "--output-format", "json", cwd=project)
    assert checked.findings == []
    assert checked.code == 0
