"""A process that is killed while it writes: each file is old or new and whole, and half of a fix is finished or told.

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

from dynalint.fix import journal

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
    if event in ("open", "os.rename", "os.remove", "tempfile.mkstemp", "os.chmod", "os.chown"):
        touched += 1
        if touched == moment:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(watch)
write_together([Write(Path(file), Path(file).name, old, new) for file in files])
"""


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
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
def test_files_are_whole_and_half_of_a_fix_is_finished(files: list[Path]) -> None:
    halves = moments = 0
    for moment in _kill_at_each_moment(files):
        moments = moment
        texts = [file.read_text() for file in files]
        assert set(texts) <= {OLD, NEW}
        notes, failures = journal.finish_interrupted(file.parent for file in files)
        assert failures == []
        if len(set(texts)) == 2:
            halves += 1
            assert notes == ["finished an interrupted fix of a.py and b.py and c.py"]
            assert {file.read_text() for file in files} == {NEW}
        else:
            assert notes == []
            assert [file.read_text() for file in files] == texts
        assert not journal.interrupted(file.parent for file in files)
    assert halves >= 2, moments
    assert {file.read_text() for file in files} == {NEW}


def _half(files: list[Path]) -> None:
    """Leave things as a process does that is killed when the first file is replaced."""
    entries = []
    for file in files:
        file.write_text(OLD)
        staged = file.with_suffix(".tmp")
        staged.write_text(NEW)
        digests = (journal.digest(OLD.encode()), journal.digest(NEW.encode()))
        entries.append(journal.Entry(str(file), file.name, str(staged), *digests))
    record = journal.begin(entries)
    text = json.loads(record.read_text())
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    record.write_text(json.dumps({**text, "process": ended.pid}))
    files[0].with_suffix(".tmp").replace(files[0])


def test_what_has_changed_since_is_left_alone_and_told(files: list[Path]) -> None:
    _half(files)
    files[1].write_text("edited\n")
    notes, failures = journal.finish_interrupted(file.parent for file in files)
    assert notes == []
    (told,) = failures
    assert told.startswith("a fix of several files was interrupted and cannot be finished: a.py changed, b.py and c.py")
    assert [file.read_text() for file in files] == [NEW, "edited\n", OLD]


def test_a_fix_under_way_is_nobody_elses(files: list[Path]) -> None:
    for file in files:
        file.write_text(OLD)
    entry = journal.Entry(str(files[0]), "a.py", "", "", "")
    journal.begin([entry, entry])
    assert journal.finish_interrupted([files[0].parent]) == ([], [])
    assert journal.interrupted([files[0].parent])


def test_the_command_says_so_and_finishes_it(tmp_path: Path) -> None:
    def fix(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "dynalint", "fix", "--static", *options]
        return subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, check=False)

    _half([tmp_path / "a.py", tmp_path / "b.py"])
    ran = fix()
    assert ran.returncode == 2
    assert "an earlier fix of several files was interrupted; `dynalint fix --apply` finishes it" in ran.stderr
    assert (tmp_path / "b.py").read_text() == OLD
    ran = fix("--apply")
    assert ran.returncode == 0
    assert "finished an interrupted fix of a.py and b.py" in ran.stderr
    assert (tmp_path / "b.py").read_text() == NEW
