"""The walkthrough in the documentation: its commands print what the page shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "build_walkthrough.py"


@pytest.mark.dynamo
@pytest.mark.network
@pytest.mark.slow
def test_the_commands_print_what_the_page_shows() -> None:
    ran = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
