"""The progress bar: on a terminal, on standard error, for what takes a while, and gone afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import sys, time
from dynalint.cli import activity
activity.DELAY_SECONDS = 0.05
with activity.Activity("reading", enabled=sys.stderr.isatty()) as progress:
    {body}
print("done", file=sys.stderr)
"""
SLOW = "time.sleep(0.5); progress(1, 3, 'pkg.m:[Model]'); time.sleep(1.5)"


def on_a_terminal(body: str) -> str:
    """What a script writes to standard error if that is a terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", SCRIPT.format(body=body)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(command, stderr=theirs, stdin=theirs, env=environment):
        os.close(theirs)
        written = b""
        try:
            while data := os.read(ours, 4096):
                written += data
        except OSError:  # how Linux says that the other end is closed
            pass
    os.close(ours)
    return written.decode()


@pytest.mark.may_skip
def test_a_bar_for_what_takes_a_while() -> None:
    written = on_a_terminal(SLOW)
    assert "1/3" in written
    assert "pkg.m:[Model]" in written
    assert written.splitlines()[-1].endswith("done")
    assert "\x1b[2K" in written  # the bar is wiped at the end


@pytest.mark.may_skip
def test_nothing_for_what_is_quick() -> None:
    assert on_a_terminal("progress(1, 3, 'x')") == "done\r\n"


def test_nothing_where_nobody_looks() -> None:
    command = [sys.executable, "-c", SCRIPT.format(body="assert progress is None; time.sleep(0.1)")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr == "done\n"


def test_verbose_says_what_is_done(dynalint: Callable[..., Any], model: Path) -> None:
    ran = dynalint("check", "--static", "-v", "--output-format", "json")
    assert len(ran.json) == 2
    assert "settings are the defaults." in ran.err
    assert "reading 1 file." in ran.err
