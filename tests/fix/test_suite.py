"""`dynalint fix --test`: the project's own tests as the verification of fixes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.in_process import in_process

pytestmark = [pytest.mark.dynamo, pytest.mark.long, pytest.mark.timeout(900)]

Fix = Callable[..., subprocess.CompletedProcess[str]]

MODEL = """\
import torch
from torch import nn


class Kept(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x * 2
        return -x


class Read(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.mean() > 0:
            return x + 1
        return x


class Unspoken(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.max() > 0:
            return x + 1
        return x - 1


class Loud(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print("at work")
        return x + 1
"""

# One passes, one fails with the fix, for it looks at the source, one fails in any case, one is of something else.
TESTS = """\
import inspect
from pathlib import Path

import pytest
import torch
from pkg.model import Kept, Read


@pytest.fixture(scope="session")
def result():
    Path("left-behind").touch()
    return Kept()(torch.ones(2))


def test_other():
    assert not Path("left-behind").exists()


def test_kept(result):
    assert result.sum() == 4


def test_kept_again(result):
    assert result.min() == 2


def test_read():
    Read()(torch.ones(2))
    assert "return x + 1" in inspect.getsource(Read)


def test_broken():
    Kept()(torch.ones(2))
    raise ValueError("in any case")
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, sandboxed: None) -> Path:
    return make(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def sandboxed() -> None:
    from dynalint.confirm.worker.sandbox import syscalls

    try:
        if syscalls.landlock_version() >= 3:
            return
    except OSError:
        pass
    pytest.skip("this system has no sandbox")


def make(folder: Path, tests: str = TESTS) -> Path:
    (folder / "pkg").mkdir()
    (folder / "tests").mkdir()
    (folder / "pyproject.toml").touch()
    (folder / "pkg" / "__init__.py").touch()
    (folder / "pkg" / "model.py").write_text(MODEL)
    (folder / "tests" / "test_model.py").write_text(tests)
    return folder


def fix(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "dynalint", "fix", "--python", sys.executable, *arguments, "pkg"]
    if sys.version_info < (3, 11):
        command.remove("-P")
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_fix_that_a_test_fails_with_is_taken_back_alone_and_tests_are_named(project: Path) -> None:
    ran = fix(project, "--select", "DYN1", "--apply", "--test", "pytest -q tests", "--output-format", "json")
    assert ran.returncode == 1, ran.stderr  # a finding is left
    found = {one["function"]: one["fix"] for one in json.loads(ran.stdout)}
    kept, read, unspoken = (found[f"{name}.forward"] for name in ("Kept", "Read", "Unspoken"))
    tests = "tests/test_model.py::test"
    assert (kept["applied"], kept["tests"]) == (True, [f"{tests}_kept", f"{tests}_kept_again"])
    assert (unspoken["applied"], unspoken["tests"]) == (True, [])
    assert "applied" not in read
    assert f"{tests}_read passes without it and fails with it" in read["declined"]
    text = (project / "pkg" / "model.py").read_text()
    assert text.count("torch.where") == 2
    assert "if x.mean() > 0:" in text
    assert f"tested by {tests}_kept, {tests}_kept_again." in ran.stderr
    assert "no passing test reaches 1 of the fixes: pkg/model.py:21 DYN101." in ran.stderr
    assert f"1 test fails even without the fixes, which proves nothing: {tests}_broken." in ran.stderr
    assert not (project / "left-behind").exists()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-command tests", "`no-such-command tests` cannot be run: the command was not found."),
        ("pytest -q tests -k nothing", "`pytest -q tests -k nothing` did not run any tests: no tests were collected"),
        ("pytest -q --no-such-option", "`pytest -q --no-such-option` did not run any tests: it exited with status 4"),
        ("python -c 'raise SystemExit(3)'", "exited with status 3 even without fixes"),
        ("pytest 'tests", "the test command cannot be parsed (No closing quotation)."),
    ],
)
def test_what_cannot_judge_is_one_sentence_and_nothing_is_fixed(project: Path, command: str, said: str) -> None:
    before = (project / "pkg" / "model.py").read_text()
    (project / "pkg" / "model.py").write_text(MODEL)
    ran = fix(project, "--select", "DYN4", "--apply", "--no-verify", "--test", command)
    assert ran.returncode == 2, ran.stderr
    assert "nothing was fixed because" in ran.stderr
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr
    assert (project / "pkg" / "model.py").read_text() == MODEL
    (project / "pkg" / "model.py").write_text(before)


def test_a_command_that_cannot_run_is_told_before_anything_is_verified(
    tmp_path: Path, sandboxed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "import no_such_package\n")
    monkeypatch.setattr("dynalint.engine.fix_findings", lambda *_, **__: pytest.fail("it was verified before"))
    command = ["fix", "--select", "DYN1", "--python", sys.executable, "--test", "pytest -q tests", "pkg"]
    ran = in_process(command, tmp_path, dict(os.environ))
    assert ran.returncode == 2, ran.stderr
    assert "did not run any tests: tests/test_model.py cannot be imported (ModuleNotFoundError: No module" in ran.stderr


def test_a_plugin_that_the_sandbox_keeps_from_starting_is_left_out(tmp_path: Path, sandboxed: None) -> None:
    make(tmp_path)
    plugin = "import socket\n\ndef pytest_configure(config):\n    config.status = socket.socket()\n\n"
    plugin += "def pytest_runtest_setup(item):\n    assert item.config.status\n"
    (tmp_path / "talking.py").write_text(plugin)
    command = "python -m pytest -q -p talking tests"
    ran = fix(tmp_path, "--apply", "--no-verify", "--select", "DYN4", "--test", command)
    assert "5 tests ran in a copy of the project, in the sandbox" in ran.stderr


def test_other_commands_speak_for_all_fixes_together(tmp_path: Path, sandboxed: None) -> None:
    make(tmp_path)
    code = "import torch; from pkg.model import Kept; assert Kept()(torch.ones(2)).sum() == 4"
    ran = fix(tmp_path, "--no-verify", "--select", "DYN4", "--test", f'python -c "{code}"')
    assert ran.returncode == 1, ran.stderr  # there is a diff
    assert "passes both with and without the fixes, in a copy of the project, in the sandbox." in ran.stderr


def test_nothing_is_run_where_no_fix_is_on_offer(project: Path) -> None:
    ran = fix(project, "--select", "DYN9", "--test", "no-such-command")
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr


def test_nothing_goes_on_after_an_interrupt(tmp_path: Path, sandboxed: None) -> None:
    make(tmp_path, "import time\n\n\ndef test_long():\n    time.sleep(97531)\n")
    command = [sys.executable, "-m", "dynalint", "fix", "--apply", "--no-verify", "--test", "pytest -q tests", "pkg"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # What runs in the background of a shell ignores the signal, and so would this.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )
    while not any("-q\0tests\0" in line for line in command_lines()):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert not [line for line in command_lines() if str(tmp_path) in line or "-q\0tests\0" in line]
    assert (tmp_path / "pkg" / "model.py").read_text() == MODEL


def command_lines() -> list[str]:
    """Return how the processes of this user that are called pytest were started."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "pytest\0-q\0tests\0" in line and entry.stat().st_uid == os.getuid():
            found.append(line)
    return found


def test_a_project_names_the_command_only_if_it_is_trusted(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "dynalint.toml").write_text("test-command = 'touch ran'\n")
    ran = fix(tmp_path, "--select", "DYN9")
    assert (
        '`test-command = "touch ran"` (dynalint.toml:1) has no effect, because this project is not trusted'
        in ran.stderr
    )
