"""The same findings and the same exit code, whatever the jobs, the cache and the spelling of paths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.long
@pytest.mark.timeout(600)
def test_confirmed(dynalint: Callable[..., Any], tutorial: Path) -> None:
    def check(*arguments: str, path: str = ".") -> tuple[str, int]:
        ran = dynalint("check", "--confirm", "--output-format", "json", *arguments, path, cwd=tutorial)
        return ran.out, ran.code

    cold = check("--jobs", "2")
    assert '"confirmed"' in cold[0]
    assert cold[1] == 1
    assert check("--jobs", "2") == cold  # from the cache
    assert check("--jobs", "1", "--no-cache", path=str(tutorial)) == cold


@pytest.mark.parametrize("form", ["full", "sarif", "gitlab", "junit", "github"])
def test_static(dynalint: Callable[..., Any], tutorial: Path, form: str) -> None:
    def check(*arguments: str) -> tuple[str, int]:
        ran = dynalint("check", "--static", "--output-format", form, *arguments, cwd=tutorial)
        return ran.out, ran.code

    first = check()
    assert "DYN" in first[0]
    assert check("--jobs", "1", "--no-cache", str(tutorial)) == first
    assert check(*(str(path) for path in sorted(tutorial.glob("*.py"), reverse=True))) == first
