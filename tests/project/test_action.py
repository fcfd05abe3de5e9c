"""The composite action: its steps, run by bash as a runner would run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BREAKS = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        return -x
"""


def run_steps(folder: Path, temporary: Path, inputs: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the steps one after another, handing on what they write to GITHUB_ENV; the last one's result."""
    action: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    known = {name: described["default"] for name, described in action["inputs"].items()}
    assert inputs.keys() <= known.keys()
    values = {f"inputs.{name}": value for name, value in {**known, **inputs}.items()}
    values["github.action_path"] = str(ROOT)
    handed_on = temporary / "env"
    handed_on.touch()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for step in action["runs"]["steps"]:
        assert "${{" not in step["run"], "a value pasted into a script can run as part of it; pass it as a variable"
        variables = {
            name: re.sub(r"\$\{\{ *(.*?) *\}\}", lambda found: values[found[1]], text)
            for name, text in step["env"].items()
        }
        made = dict(line.split("=", 1) for line in handed_on.read_text().splitlines())
        runner = {"RUNNER_TEMP": str(temporary), "GITHUB_ENV": str(handed_on), "GITHUB_WORKSPACE": str(folder)}
        ran = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder,
            env={**os.environ, **runner, **made, **variables, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode:
            break
    return ran


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.skipif(os.name == "nt", reason="runs bash")
def test_findings_become_annotations(tmp_path: Path) -> None:
    folder, temporary = tmp_path / "checkout", tmp_path / "runner"
    (folder / "src").mkdir(parents=True)
    temporary.mkdir()
    (folder / "src" / "bad.py").write_text(BREAKS)
    ran = run_steps(folder, temporary, {"paths": "src", "args": "--select DYN1"})
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert re.search(r"^::(error|warning) .*file=src/bad\.py,.*line=7", ran.stdout, re.MULTILINE), ran.stdout
    (folder / "src" / "bad.py").write_text(BREAKS.replace("x.sum()", "x.dim()"))
    ran = run_steps(folder, temporary, {})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    ran = run_steps(folder, temporary, {"confirm": "perhaps"})
    assert ran.returncode == 2
    assert "perhaps" in ran.stdout
