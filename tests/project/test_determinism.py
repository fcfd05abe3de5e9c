"""The same findings and the same exit code, whatever the jobs, the cache and the spelling of paths."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FIXTURE = Path(__file__).parent / "fixtures" / "tutorial"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Three models of the tutorial and what says how to call them."""
    for name in ("branching.py", "counting.py", "timing.py", "examples.py", "pyproject.toml"):
        shutil.copy(FIXTURE / name, tmp_path / name)
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_confirmed(dynalint: Callable[..., Any], project: Path) -> None:
    def check(*arguments: str, path: str = ".") -> tuple[str, int]:
        ran = dynalint("check", "--confirm", "--output-format", "json", *arguments, path, cwd=project)
        return ran.out, ran.code

    cold = check("--jobs", "2")
    assert '"confirmed"' in cold[0]
    assert cold[1] == 1
    assert check("--jobs", "2") == cold  # from the cache
    assert check("--jobs", "1", "--no-cache") == cold
    assert check(path=str(project)) == cold


@pytest.mark.parametrize("form", ["full", "sarif", "gitlab", "junit", "github"])
def test_static(dynalint: Callable[..., Any], project: Path, form: str) -> None:
    def check(*arguments: str) -> tuple[str, int]:
        ran = dynalint("check", "--static", "--output-format", form, *arguments, cwd=project)
        return ran.out, ran.code

    first = check()
    assert "DYN" in first[0]
    assert check("--jobs", "1", "--no-cache", str(project)) == first
    assert check("timing.py", "./counting.py", str(project / "branching.py"), "examples.py") == first
