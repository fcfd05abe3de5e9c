"""The walkthrough in the documentation: its commands print what the page shows."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.in_process import in_process

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "build_walkthrough.py"


@pytest.mark.dynamo
@pytest.mark.network
@pytest.mark.slow
def test_the_commands_print_what_the_page_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """dynalint's commands run in this process, which has a worker server."""
    spec = spec_from_file_location("build_walkthrough", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script: Any = module_from_spec(spec)
    spec.loader.exec_module(script)

    def run(command: list[str], cwd: Path, env: Mapping[str, str], **more: Any) -> subprocess.CompletedProcess[str]:
        if command[1:3] == ["-m", "dynalint"]:
            return in_process(command[3:], cwd, env)
        return subprocess.run(command, cwd=cwd, env=env, **more)  # noqa: PLW1510 - given as in the script

    monkeypatch.setattr(script, "subprocess", SimpleNamespace(run=run))
    page = script.PAGE.read_text(encoding="utf-8")
    assert script.rebuilt(page, tmp_path) == page
