"""The hooks, as pre-commit runs them: from a clone of this repository, in an environment that pre-commit builds."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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
CLEAN = BREAKS.replace("x.sum()", "x.dim()")
SUPPRESSED_IN_VAIN = "import torch\n\nx = torch.ones(1)  # dynalint: ignore[DYN101]\n"


def run(*command: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "DYNALINT_"))}
    identity = {
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in (("NAME", "Test"), ("EMAIL", "test@example.com"))
    }
    return subprocess.run(
        command,
        cwd=cwd,
        env={**inherited, **identity, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with findings, which would also harm whoever runs the hooks."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (tmp_path / "bystander").write_text("kept\n")
    hashes = {"before": hashlib.sha256(b"kept\n").hexdigest(), "after": hashlib.sha256(b"malice\n").hexdigest()}
    files = [
        {"path": "done", "name": "done", "staged": str(tmp_path / "bystander"), **hashes},
        {"path": str(tmp_path / "bystander"), "name": "it", "staged": "done", **hashes},
    ]
    for name, text in {
        "done": "malice\n",
        ".dynalint-unfinished-1.json": json.dumps({"process": 999999, "files": files}),
        "sitecustomize.py": f"open({str(tmp_path / 'ran')!r}, 'w')\n",
        "bad.py": BREAKS,
        "good.py": CLEAN,
        "vain.py": SUPPRESSED_IN_VAIN,
        "excluded.py": BREAKS,
        "notes.txt": "if x.sum() > 0: print(x)\n",
        "pyproject.toml": '[tool.dynalint]\nexclude = ["excluded.py"]\npython = "./evil"\nconfirm = "always"\n',
        "evil": f"#!/bin/sh\ntouch '{tmp_path / 'ran'}'\n",
    }.items():
        (folder / name).write_text(text)
    (folder / "evil").chmod(0o755)
    (folder / "outside.py").symlink_to(tmp_path / "bystander")
    assert run("git", "init", "--quiet", ".", cwd=folder).returncode == 0
    assert run("git", "add", ".", cwd=folder).returncode == 0
    assert run("git", "commit", "--quiet", "-m", "Start", cwd=folder).returncode == 0
    return folder


def test_the_manifest_is_valid() -> None:
    ran = run(sys.executable, "-m", "pre_commit", "validate-manifest", ".pre-commit-hooks.yaml", cwd=ROOT)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    ran = run(sys.executable, "-m", "pre_commit", "validate-config", ".pre-commit-config.yaml", cwd=ROOT)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.slow
@pytest.mark.network
def test_both_hooks_in_a_scratch_repository(repository: Path) -> None:
    ran = run(
        sys.executable,
        *("-m", "pre_commit", "try-repo", str(ROOT), "--all-files", "--color", "never", "--verbose"),
        cwd=repository,
        NO_COLOR="1",
    )
    output = ran.stdout + ran.stderr
    assert ran.returncode == 1, output
    assert re.search(r"dynalint check\.*Failed", output), output
    assert re.search(r"dynalint fix\.*Failed", output), output

    # The branch is found; the file that branches on a dimension and the one that the configuration excludes are not.
    assert "bad.py:7:" in output, output
    assert "DYN101" in output
    assert "good.py" not in output
    assert "excluded.py" not in output
    assert "notes.txt" not in output
    assert "Traceback" not in output

    # The vain suppression is removed, which is exact; the branch needs a run to judge, which a hook does not do.
    assert "files were modified by this hook" in output
    assert (repository / "vain.py").read_text() == "import torch\n\nx = torch.ones(1)\n"
    assert (repository / "bad.py").read_text() == BREAKS

    # Nobody was harmed.
    assert (repository.parent / "bystander").read_text() == "kept\n"
    assert not (repository.parent / "ran").exists()


@pytest.mark.long
@pytest.mark.network
def test_no_matching_file_is_no_failure(repository: Path) -> None:
    ran = run(
        sys.executable,
        *("-m", "pre_commit", "try-repo", str(ROOT), "dynalint-check", "--files", "notes.txt", "--color", "never"),
        cwd=repository,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Skipped" in ran.stdout
