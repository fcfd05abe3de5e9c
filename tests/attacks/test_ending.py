"""Ending before the time: a model that never ends must not keep anybody, and nothing of a run is left behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dynalint.confirm.temporary import TemporaryFolder, remove_abandoned
from dynalint.confirm.worker.process.leftovers import remove
from dynalint.confirm.worker.process.supervisor import JobRules, guarded
from dynalint.confirm.worker.process.wire import Reply
from dynalint.confirm.worker.sandbox.readable import ReadableFolders
from dynalint.confirm.worker.sandbox.walls import Limits

if TYPE_CHECKING:
    from conftest import Victim

pytestmark = [
    pytest.mark.dynamo,
    pytest.mark.skipif(sys.platform != "linux", reason="no sandbox is known elsewhere"),
    pytest.mark.may_skip,
]

# The bar is two seconds, on a machine that has nothing else to do.
SOON = 5.0
INTERRUPTED = 130

# Leaves word of itself at the one place that it may write to: by the name of a program that it starts.
SLEEPS = """\
import os
import sys
import time

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execv("/bin/sleep", ["{word}", "1000"])
            time.sleep(1000)
        time.sleep(1000)
        if x.sum() > 0:
            return x + 1
        return x
"""
SMALL = """\
import torch
from torch import nn


class Small(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x + 1
        return x
"""
# Where it is confirmed, and not in the command itself, this one never ends.
TRACED = SLEEPS.replace("if os.fork() == 0:", "if 'TRITON_CACHE_DIR' in os.environ and os.fork() == 0:", 1).replace(
    "        time.sleep(1000)\n        if x",
    "        if 'TRITON_CACHE_DIR' in os.environ:\n            time.sleep(1000)\n        if x",
)
CALLS = """\
import sys
import time

import torch
from model import Model

with torch.no_grad():
    Model()(torch.ones(2, 2))
time.sleep(float(sys.argv[1]))
"""


class Running:
    """A command that runs, with temporary folders of its own."""

    def __init__(self, victim: Victim, *arguments: str, model: str) -> None:
        self.temporary = victim.home.parent / "temporary"
        self.temporary.mkdir(mode=0o700, exist_ok=True)
        self.word = f"dynalint-{victim.home.parent.name}"[-40:]
        victim.write("repository/model.py", model.format(word=self.word))
        victim.write("repository/dynalint.toml", "timeout = 600\n")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dynalint", *arguments],
            cwd=victim.repository,
            env=victim.environment({"TMPDIR": str(self.temporary)}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # As at a prompt: what is started in the background hears no Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
        )

    def left(self) -> list[str]:
        """Return what is there of the run: processes that know its folder, and what the folders hold."""
        found = [path.name for path in self.temporary.iterdir()]
        marks = (os.fsencode(self.temporary), self.word.encode())
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                told = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state != "Z" and int(entry.name) != os.getpid() and any(mark in told for mark in marks):
                found.append(f"{entry.name}: {told[-100:]!r}")
        return found

    def wait_until(self, reached: Callable[[], bool]) -> None:
        end = time.monotonic() + 90
        while not reached():
            assert time.monotonic() < end, "it never came there"
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.05)

    def wait_for_the_model(self) -> None:
        """Wait until the model sleeps, and the programs that it has started."""
        self.wait_until(lambda: any(self.word.encode() in self._command(entry) for entry in self._processes()))

    def wait_for_the_import(self) -> None:
        """Wait until the server is in the middle of importing torch."""
        self.wait_until(lambda: any(self._imports(entry) for entry in self._processes()))

    def _imports(self, entry: Path) -> bool:
        try:
            # It is told where its folder is; other tests have servers of their own.
            return os.fsencode(self.temporary) in self._command(entry) and "libtorch" in (entry / "maps").read_text()
        except OSError:
            return False

    @staticmethod
    def _processes() -> list[Path]:
        return list(Path("/proc").glob("[0-9]*"))

    @staticmethod
    def _command(entry: Path) -> bytes:
        try:
            return (entry / "cmdline").read_bytes()
        except OSError:
            return b""

    def signal(self, number: int) -> tuple[float, str, str]:
        """Send a signal and return the seconds until it has ended, and what it has said."""
        start = time.monotonic()
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=60)
        return time.monotonic() - start, out, err

    def assert_nothing_left(self) -> None:
        end = time.monotonic() + SOON
        while left := self.left():
            assert time.monotonic() < end, left
            time.sleep(0.05)


@pytest.fixture
def start(victim: Victim) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def run(*arguments: str, model: str = SLEEPS) -> Running:
        started.append(Running(victim, *arguments, model=model))
        return started[-1]

    yield run
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


COMMANDS = {
    "check": ["check", "model.py", "small.py"],
    "fix": ["fix", "model.py"],
    "explain": ["explain", "model.py"],
}


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("check", signal.SIGINT),
        pytest.param("fix", signal.SIGTERM, marks=pytest.mark.long),
        pytest.param("explain", signal.SIGINT, marks=pytest.mark.long),
    ],
    ids=["check-ctrl_c", "fix-sigterm", "explain-ctrl_c"],
)
def test_a_model_that_never_ends_keeps_nobody(
    victim: Victim, start: Callable[..., Running], command: str, number: int
) -> None:
    victim.write("repository/small.py", SMALL)
    running = start(*COMMANDS[command])
    running.wait_for_the_model()
    seconds, out, err = running.signal(number)
    print(f"{command} {signal.Signals(number).name}: {seconds:.2f} s")
    assert running.process.returncode == INTERRUPTED, err
    assert "Traceback" not in err
    assert re.search("interrupted", err)
    assert seconds < SOON
    running.assert_nothing_left()
    if command == "check":
        assert "model.py" in out
        assert "small.py" in out


@pytest.mark.parametrize(
    "pause", [pytest.param(0.0, marks=pytest.mark.long), 0.05, pytest.param(0.2, marks=pytest.mark.long)]
)
@pytest.mark.long
def test_a_second_ctrl_c_prints_no_traceback(start: Callable[..., Running], pause: float) -> None:
    running = start("check", "model.py")
    running.wait_for_the_model()
    running.process.send_signal(signal.SIGINT)
    time.sleep(pause)
    seconds, _, err = running.signal(signal.SIGINT)
    assert running.process.returncode == INTERRUPTED
    assert "Traceback" not in err
    assert seconds < SOON
    running.assert_nothing_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl_c", "sigterm"])
def test_torch_need_not_be_imported_to_the_end(start: Callable[..., Running], number: int) -> None:
    running = start("check", "model.py")
    running.wait_for_the_import()
    seconds, _, err = running.signal(number)
    assert running.process.returncode == INTERRUPTED, err
    assert "Traceback" not in err
    assert seconds < SOON
    running.assert_nothing_left()


def test_after_a_kill_the_model_goes_and_the_folders(start: Callable[..., Running]) -> None:
    running = start("check", "model.py")
    running.wait_for_the_model()
    assert running.left()
    running.signal(signal.SIGKILL)
    running.assert_nothing_left()


def test_after_a_kill_while_torch_is_imported_the_server_goes_and_the_folders(start: Callable[..., Running]) -> None:
    running = start("check", "model.py")
    running.wait_for_the_import()
    running.signal(signal.SIGKILL)
    running.assert_nothing_left()


@pytest.mark.long
def test_where_the_server_is_killed_too_the_model_goes(start: Callable[..., Running]) -> None:
    running = start("check", "model.py")
    running.wait_for_the_model()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"PPid:\t{running.process.pid}\n" in (entry / "status").read_text():
                os.kill(int(entry.name), signal.SIGKILL)
    running.signal(signal.SIGKILL)
    end = time.monotonic() + SOON
    while [one for one in running.left() if ":" in one]:
        assert time.monotonic() < end, running.left()
        time.sleep(0.05)
    # Nobody was left to remove the folder: the next run does.
    folder = running.temporary
    assert list(folder.iterdir())
    with contextlib.ExitStack() as stack:
        stack.callback(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = str(folder)
        remove_abandoned()
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("seconds", "number"),
    [("0", signal.SIGINT), ("1000", signal.SIGTERM)],
    ids=["after_the_command-ctrl_c", "with_the_command-sigterm"],
)
def test_trace_ends(victim: Victim, start: Callable[..., Running], seconds: str, number: int) -> None:
    victim.write("repository/main.py", CALLS)
    running = start("trace", "--", sys.executable, "main.py", seconds, model=TRACED)
    running.wait_for_the_model()
    took, _, err = running.signal(number)
    print(f"trace {signal.Signals(number).name}: {took:.2f} s")
    assert "dynalint/" not in err
    assert took < SOON
    running.assert_nothing_left()


@pytest.mark.long
def test_after_a_kill_of_trace_what_it_confirms_goes(victim: Victim, start: Callable[..., Running]) -> None:
    victim.write("repository/main.py", CALLS)
    running = start("trace", "--", sys.executable, "main.py", "0", model=TRACED)
    running.wait_for_the_model()
    running.signal(signal.SIGKILL)
    end = time.monotonic() + SOON
    while [one for one in running.left() if ":" in one]:
        assert time.monotonic() < end, running.left()
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl_c", "sigterm"])
def test_the_language_server_ends(start: Callable[..., Running], number: int) -> None:
    pytest.importorskip("pygls")
    running = start("server")
    running.wait_until(lambda: b"SigCgt" in Path(f"/proc/{running.process.pid}/status").read_bytes())
    time.sleep(2)
    seconds, _, err = running.signal(number)
    assert running.process.returncode == INTERRUPTED, err
    assert "Traceback" not in err
    assert seconds < SOON
    running.assert_nothing_left()


def test_what_a_process_without_namespaces_has_started_goes_with_its_server(tmp_path: Path) -> None:
    """The supervisor outlives the server that has forked it, for as long as it takes to end what it watches."""
    word = f"dynalint-{tmp_path.name}"[-40:]
    server = os.fork()
    if server == 0:

        def job(_: Reply) -> None:
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    os.execv("/bin/sleep", [word, "1000"])
            time.sleep(1000)

        if os.fork() == 0:
            limits = Limits(seconds=600, memory=1 << 30, cpu_seconds=60)
            rules = JobRules(limits, ReadableFolders(), 0, "cpu", required=False)
            guarded(job, tmp_path, rules, lambda _: None)
            os._exit(0)
        time.sleep(1000)

    def sleepers() -> list[str]:
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if word.encode() in (entry / "cmdline").read_bytes():
                    found.append(entry.name)
        return found

    end = time.monotonic() + 30
    while not sleepers():
        assert time.monotonic() < end
        time.sleep(0.05)
    os.kill(server, signal.SIGKILL)
    os.waitpid(server, 0)
    end = time.monotonic() + SOON
    while sleepers():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that others may write to."""
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def abandoned(folder: Path, name: str, mode: int = 0o700) -> Path:
    made = folder / name
    made.mkdir()
    (made / "lock").touch()
    (made / "content").write_text("x")
    made.chmod(mode)
    return made


def test_only_folders_of_processes_that_are_gone_are_removed(shared: Path) -> None:
    mine = TemporaryFolder()
    (mine.path / "content").write_text("x")
    gone = abandoned(shared, "dynalint-gone")
    remove_abandoned()
    assert not gone.exists()
    assert (mine.path / "content").exists()
    mine.remove()
    assert not mine.path.exists()


@pytest.mark.parametrize("case", ["link", "link_as_lock", "open_to_others", "no_lock", "pipe_as_lock", "another_name"])
def test_nothing_is_removed_by_what_somebody_puts_into_a_shared_folder(shared: Path, tmp_path: Path, case: str) -> None:
    precious = abandoned(tmp_path, "precious")
    if case == "link":
        (shared / "dynalint-x").symlink_to(precious)
    elif case == "open_to_others":
        precious = abandoned(shared, "dynalint-x", 0o755)
    elif case == "another_name":
        precious = abandoned(shared, "other-x")
    else:
        precious = abandoned(shared, "dynalint-x")
        (precious / "lock").unlink()
        if case == "link_as_lock":
            (precious / "lock").symlink_to(precious / "content")
        elif case == "pipe_as_lock":
            os.mkfifo(precious / "lock")
            precious.chmod(0o755)
    remove_abandoned()
    assert (precious / "content").read_text() == "x"


def test_links_in_a_folder_that_is_removed_lead_nowhere(shared: Path, tmp_path: Path) -> None:
    precious = abandoned(tmp_path, "precious")
    gone = abandoned(shared, "dynalint-gone")
    (gone / "link").symlink_to(precious)
    (gone / "file").symlink_to(precious / "content")
    remove_abandoned()
    assert not gone.exists()
    assert (precious / "content").read_text() == "x"


@pytest.mark.parametrize("case", ["deep", "shut"])
def test_what_is_hard_to_remove_is_removed(tmp_path: Path, case: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    if case == "deep":
        here = Path.cwd()
        os.chdir(folder)
        for _ in range(1500):
            os.mkdir("d" * 10)  # noqa: PTH102 - its path is longer than any may be
            os.chdir("d" * 10)
        os.chdir(here)
    else:
        (folder / "shut").mkdir()
        (folder / "shut" / "file").touch()
        (folder / "shut").chmod(0)
    remove(folder)
    assert not folder.exists()
