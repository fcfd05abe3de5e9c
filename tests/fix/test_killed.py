"""A process that is killed while it writes: each file is old or new, and whole.

A child kills itself at the first, second, third, ... time that it touches a file, until one lives to the end.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

OLD, NEW = "old = 1\n" * 400, "new = 2\n" * 500
_CHILD = """
import json, os, signal, sys
from pathlib import Path
from dynalint.fix.write import FileWrite, write_together

files = [Path(file) for file in json.loads(sys.argv[1])]
old, new = (text.encode() for text in sys.stdin.read().split("|"))


def write(moment):
    touched = 0

    def watch(event, arguments):
        nonlocal touched
        if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.chmod", "os.chown"):
            touched += 1
            if touched == moment:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    write_together([FileWrite(file, file.name, old, new) for file in files])
    os._exit(0)


for moment in range(1, 1000):
    for file in files:
        file.write_bytes(old)
    child = os.fork()
    if child == 0:
        write(moment)
    status = os.waitpid(child, 0)[1]
    found = [file.read_bytes() for file in files]
    assert set(found) <= {old, new}, moment
    if status == 0:
        assert found == [new] * len(files)
        print(moment - 1)
        break
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
"""


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "deeper").mkdir()
    return [tmp_path / "a.py", tmp_path / "deeper" / "b.py", tmp_path / "c.py"]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.may_skip
def test_files_are_whole(files: list[Path]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _CHILD, json.dumps(list(map(str, files)))],
        input=f"{OLD}|{NEW}", text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > len(files)  # that often it was killed
