"""Running the command line the way a user does: as a process, in a folder of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import forking
from tests.in_process import in_process

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = Path(__file__).parent / "fixtures"


@dataclass(frozen=True)
class Ran:
    """What a dynalint process left behind."""

    code: int
    out: str
    err: str

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The findings of a run with `--output-format json`."""
        assert self.out, f"nothing on standard output; standard error says:\n{self.err}"
        return json.loads(self.out)

    def assert_no_traceback(self) -> None:
        assert "Traceback" not in self.out + self.err, self.err


Dynalint = Callable[..., Ran]


@pytest.fixture
def dynalint(tmp_path: Path) -> Dynalint:
    """Run `dynalint ARGUMENTS...` in `cwd` (default: the test's own folder)."""

    def run(*arguments: str, cwd: Path = tmp_path, stdin: str | None = None, timeout: float = 240) -> Ran:
        given = stdin if stdin is not None else ""
        ran = forking.dynalint(arguments, cwd, {**environment(), "NO_COLOR": "1"}, given=given, timeout=timeout)
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    return run


@pytest.fixture
def confirming(tmp_path: Path) -> Dynalint:
    """Run `dynalint ARGUMENTS...`, which runs code, in `cwd` and in this process."""

    def call(*arguments: str, cwd: Path = tmp_path) -> Ran:
        ran = in_process(arguments, cwd, {**environment(), "NO_COLOR": "1"})
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    return call


def environment() -> dict[str, str]:
    """Return the variables of a user's shell."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("DYNALINT_", "GITHUB_"))}


@pytest.fixture
def tutorial(tmp_path: Path) -> Path:
    """A copy of the code blocks of a torch.compile tutorial, with declared examples."""
    folder = tmp_path / "tutorial"
    folder.mkdir()
    for source in sorted((FIXTURES / "tutorial").iterdir()):
        if source.is_file():
            (folder / source.name).write_bytes(source.read_bytes())
    return folder
