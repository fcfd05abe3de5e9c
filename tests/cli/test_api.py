"""`dynalint.check` and `dynalint.check_source`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dynalint


def test_check(model: Path) -> None:
    findings = dynalint.check(["model.py"], static=True)
    assert [(one.path, one.line, one.code) for one in findings] == [
        ("model.py", 7, "DYN101"),
        ("model.py", 9, "DYN401"),
    ]
    assert all(isinstance(one, dynalint.Finding) for one in findings)
    assert dynalint.check(static=True) == findings
    assert len(dynalint.check([model.parent], static=True, settings={"select": ["DYN4"]})) == 1


def test_check_source(model: Path) -> None:
    text = model.read_text().replace("print(x)", "pass")
    assert [one.line for one in dynalint.check_source("model.py", text)] == [7]
    assert [one.code for one in dynalint.check_source("new.py", "(")] == ["DYN901"]


def test_errors(model: Path) -> None:
    with pytest.raises(dynalint.UsageError, match=r"nowhere: no such file"):
        dynalint.check(["nowhere"], static=True)
    with pytest.raises(dynalint.ConfigError, match=r"settings: unknown key"):
        dynalint.check(static=True, settings={"selct": []})
    model.write_text(model.read_text().replace("print(x)", "import time; time.sleep(1)"))
    with pytest.raises(dynalint.DynalintError, match=r"DYN499 failed"):
        dynalint.check(static=True)
    with pytest.raises(AttributeError):
        _ = dynalint.nothing  # type: ignore[attr-defined]


def test_the_package_lists_what_it_offers_without_importing_it() -> None:
    code = (
        "import sys, dynalint; assert set(dynalint.__all__) <= set(dir(dynalint)); "
        "assert not [name for name in sys.modules if name.startswith('dynalint.')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
