"""`./dev` on a machine that lacks something: it says what, in a line, and ends with 1."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(os.name == "nt", reason="./dev is a shell script")


def dev(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    return subprocess.run(
        [ROOT / "dev", *arguments],
        env={**inherited, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_lists_its_commands() -> None:
    for arguments, code in (([], 2), (["dance"], 2), (["--help"], 0)):
        ran = dev(*arguments)
        assert ran.returncode == code
        assert "./dev test" in ran.stdout


def test_an_old_python_is_named(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    ran = dev("setup", PYTHON=str(old))
    assert ran.returncode == 1
    assert str(old) in ran.stderr
    assert "3.10" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.slow
def test_an_unreachable_index_is_named(tmp_path: Path) -> None:
    ran = dev(
        "setup",
        DYNALINT_VENV=str(tmp_path / "venv"),
        PIP_CONFIG_FILE=os.devnull,
        PIP_INDEX_URL="http://127.0.0.1:9/simple",
        PIP_RETRIES="0",
    )
    assert ran.returncode == 1
    assert "torch==" in ran.stderr
    assert "index" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1, ran.stderr
