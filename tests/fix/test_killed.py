"""A process that is killed while it writes: each file is old or new, and whole.

The child kills itself, for good, at the first, second, third, ... time that it touches a file, until it lives to the end.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

OLD, NEW = "old = 1\n" * 400, "new = 2\n" * 500
_CHILD = """
import json, os, signal, sys
from pathlib import Path
from dynalint.fix.write import Write, write_together

files, moment = json.loads(sys.argv[1]), int(sys.argv[2])
old, new = sys.stdin.read().encode().split(b"|")
touched = 0

def watch(event, arguments):
    global touched
    if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.chmod", "os.chown"):
        touched += 1
        if touched == moment:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(watch)
write_together([Write(Path(file), Path(file).name, old, new) for file in files])
"""


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "deeper").mkdir()
    return [tmp_path / "a.py", tmp_path / "deeper" / "b.py", tmp_path / "c.py"]


def _kill_at_each_moment(files: list[Path]) -> Iterator[int]:
    """Yield how often the child touched a file before it was killed, once for each number until it is not killed."""
    for moment in range(1, 200):
        for file in files:
            file.write_text(OLD)
        ran = subprocess.run(
            [sys.executable, "-c", _CHILD, json.dumps(list(map(str, files))), str(moment)],
            input=f"{OLD}|{NEW}", text=True, capture_output=True, check=False,
        )  # fmt: skip
        if ran.returncode == 0:
            return
        assert ran.returncode == -signal.SIGKILL, ran.stderr
        yield moment


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.may_skip
@pytest.mark.slow
def test_files_are_whole(files: list[Path]) -> None:
    moments = 0
    for moment in _kill_at_each_moment(files):
        moments = moment
        assert {file.read_text() for file in files} <= {OLD, NEW}
    assert moments > len(files)
    assert {file.read_text() for file in files} == {NEW}
