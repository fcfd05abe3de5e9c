"""Attacks: a repository, the code in it or its history tries to harm whoever checks it.

Each test plays one attack as it was seen to work, through the command that a user, a hook or an editor runs, and looks
at what it would have done. `home` is the user's own: its folders, and files that nothing here may touch or show.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.forking import dynalint
from tests.in_process import in_process

ROOT = Path(__file__).resolve().parents[2]
SECRET = "hunter2-do-not-tell"

BRANCH = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x + 1
        return x
"""


class Victim:
    """A user with a home folder and a clone of somebody else's repository, who runs dynalint in it."""

    def __init__(self, folder: Path) -> None:
        self.home, self.repository = folder / "home", folder / "repository"
        self.home.mkdir()
        self.repository.mkdir()
        self.write("home/.bashrc", "alias ll='ls -l'\n")
        self.write("home/.ssh/id_ed25519", SECRET)

    def write(self, name: str, text: str | bytes) -> Path:
        """Write a file; the name is relative to the folder that holds `home` and `repository`."""
        path = self.home.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def commit(self) -> None:
        """Make the repository one of git's, with all that is in it committed."""
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        for arguments in (
            ["init", "--quiet"],
            ["add", "--all", "--force"],
            [*identity, "commit", "--quiet", "-m", "x"],
        ):
            subprocess.run(["git", *arguments], cwd=self.repository, check=True, env=self.environment({}))

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of the user's shell."""
        dropped = ("XDG_", "DYNALINT_", "GIT_", "GITHUB_", "VIRTUAL_ENV", "CONDA_PREFIX")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        return {**kept, "HOME": str(self.home), "USERPROFILE": str(self.home), **more}

    def dynalint(
        self, *arguments: str, timeout: float = 120.0, environment: Mapping[str, str] | None = None, given: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run the command in the repository, with `given` to read; to take longer than `timeout` seconds is to hang."""
        return dynalint(arguments, self.repository, self.environment(environment or {}), given=given, timeout=timeout)

    def in_process(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the command in the repository, in this process: torch is not imported again for it."""
        return in_process(arguments, self.repository, self.environment(environment))

    def assert_unharmed(self) -> None:
        """Nothing of the user's own is changed or gone."""
        assert (self.home / ".bashrc").read_text() == "alias ll='ls -l'\n"
        assert (self.home / ".ssh" / "id_ed25519").read_text() == SECRET


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    return Victim(tmp_path)
