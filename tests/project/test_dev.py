"""`./dev` on a machine that lacks something: it says what, in a line, and ends with 1."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

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


@pytest.mark.long
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
    assert "pip>=" in ran.stderr
    assert "index" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1, ran.stderr


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dynalint_dev", ROOT / "scripts" / "dev.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_takes_long_gives_signs_of_life(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    script.SECONDS_BETWEEN_MESSAGES = 0.01
    with script.showing_progress("installing"):
        deadline = time.monotonic() + 10
        while "installing: 0 seconds so far" not in (told := capsys.readouterr().out):
            assert time.monotonic() < deadline, told
    time.sleep(0.05)
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("ci", "missing"), [("true", ["a browser"]), ("", [])])
def test_a_browser_that_is_missing_is_named(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ci: str, missing: list[str]
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert script.install_browser() == missing
    assert "apt install chromium" in capsys.readouterr().err


def test_a_browser_that_cannot_be_installed_fails_in_ci(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        asked.append(command[1])
        return SimpleNamespace(returncode=100, stderr="E: no network\n")

    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(shutil, "which", lambda name: name if name == "apt-get" else None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(script.subprocess, "run", run)
    assert script.install_browser() == ["a browser"]
    assert asked == ["install", "update", "install"]
    assert "E: no network" in capsys.readouterr().err


def test_a_test_that_fails_is_named_at_once() -> None:
    from tests.conftest import AtOnce

    lines: list[str] = []
    terminal = SimpleNamespace(ensure_newline=lambda: None, write_line=lambda line, **_: lines.append(line))
    config = SimpleNamespace(pluginmanager=SimpleNamespace(get_plugin=lambda name: terminal))
    at_once = AtOnce(config)  # type: ignore[arg-type]
    for failed in (False, True):
        report = SimpleNamespace(failed=failed, nodeid="test_it", when="call", longreprtext="E   x\n\nm.py:3: Error\n")
        at_once.pytest_runtest_logreport(report)  # type: ignore[arg-type]
    assert lines == ["FAILED test_it (call): m.py:3: Error"]
