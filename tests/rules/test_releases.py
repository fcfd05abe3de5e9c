"""Rules and cases of rules that hold for some releases of torch only."""

from __future__ import annotations

from pathlib import Path

import pytest

import dynalint

_CODE = """\
import time
from datetime import datetime

import torch


@torch.compile
def run(x):
    return x * time.time() * datetime.now().year
"""


def test_a_case_of_a_rule_may_hold_for_some_releases_only() -> None:
    def found(release: str) -> int:
        return len(dynalint.check_source("m.py", _CODE, settings={"torch": release, "select": ["DYN404"]}))

    assert (found("2.11"), found("2.13")) == (1, 2)


def test_the_installed_release_is_what_counts_unless_the_settings_name_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = _CODE.replace("import time", "import random, time").replace("time.time()", "random.sample([1, 2], 1)[0]")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    packages = tmp_path / "lib" / "python3.12" / "site-packages"
    (packages / "torch").mkdir(parents=True)
    (packages / "torch" / "version.py").touch()

    def found(release: str, **settings: object) -> list[str]:
        metadata = packages / f"torch-{release}.dist-info"
        metadata.mkdir()
        try:
            return [
                one.category for one in dynalint.check_source("m.py", code, settings={"select": ["DYN407"], **settings})
            ]
        finally:
            metadata.rmdir()

    assert found("2.13.0+cpu") == ["graph-break"]
    assert found("2.14.1") == ["miscompile"]
    assert found("2.15.0a0+gitabc") == ["miscompile"]
    assert found("2.13.0", torch="2.14") == ["miscompile"]
