"""A process that is killed while it writes: each file is old or new and whole, and half of a fix is finished or told.

The child kills itself, for good, at the first, second, third, ... time that it touches a file, until it lives to the end.
"""

from __future__ import annotations

import json
import os
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
    if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.chmod", "os.chown"):
        touched += 1
        if touched == moment:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(watch)
write_together([Write(Path(file), Path(file).name, old, new) for file in files])
"""

_DIGESTS = journal.digest(OLD.encode()), journal.digest(NEW.encode())


@pytest.fixture
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder for records, empty."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder / "dynalint" / "unfinished"


@pytest.fixture
def files(tmp_path: Path, state: Path) -> list[Path]:
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
def test_files_are_whole_and_half_of_a_fix_is_finished(files: list[Path], state: Path) -> None:
    root = files[0].parent
    halves = moments = 0
    for moment in _kill_at_each_moment(files):
        moments = moment
        texts = [file.read_text() for file in files]
        assert set(texts) <= {OLD, NEW}
        notes, failures = journal.finish_interrupted([root])
        assert failures == []
        if len(set(texts)) == 2:
            halves += 1
            assert notes == ["finished an interrupted fix of a.py and b.py and c.py"]
            assert {file.read_text() for file in files} == {NEW}
        else:
            assert notes == []
            assert [file.read_text() for file in files] == texts
        assert not journal.interrupted([root])
        # Nothing lies about: neither staged content nor a record.
        assert sorted(path.name for path in root.rglob("*.*")) == ["a.py", "b.py", "c.py", "pyproject.toml"]
        assert not list(state.glob("*"))
    assert halves >= 2, moments
    assert {file.read_text() for file in files} == {NEW}


def _left(state: Path, entries: object) -> Path:
    """Leave a record as a killed process does; return it."""
    state.mkdir(parents=True, exist_ok=True)
    record = state / f"{'0' * 16}.json"
    record.write_text(entries if isinstance(entries, str) else json.dumps(entries))
    return record


def _half(files: list[Path], state: Path) -> None:
    """Leave things as a process does that is killed when the first file is replaced."""
    record = journal.Record(state / f"{'0' * 16}.json", -1)
    for file in files:
        file.write_text(OLD)
        record.staged(file).write_text(NEW)
    before, after = _DIGESTS
    _left(state, [{"path": str(file), "name": file.name, "before": before, "after": after} for file in files])
    record.staged(files[0]).replace(files[0])


def test_what_has_changed_since_is_left_alone_and_told(files: list[Path], state: Path) -> None:
    _half(files, state)
    files[1].write_text("edited\n")
    notes, failures = journal.finish_interrupted([files[0].parent])
    assert notes == []
    (told,) = failures
    assert told.startswith("a fix of several files was interrupted and cannot be finished: a.py changed, b.py and c.py")
    assert [file.read_text() for file in files] == [NEW, "edited\n", OLD]
    assert not list(state.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="a process may lock what it has locked")
@pytest.mark.may_skip
def test_a_fix_under_way_is_nobody_elses(files: list[Path]) -> None:
    for file in files:
        file.write_text(OLD)
    record = journal.begin([journal.Entry(str(file), file.name, *_DIGESTS) for file in files])
    assert journal.finish_interrupted([files[0].parent]) == ([], [])
    assert not journal.interrupted([files[0].parent])
    record.end()


def test_a_fix_of_another_project_waits_for_a_run_there(files: list[Path], state: Path, tmp_path: Path) -> None:
    _half(files, state)
    assert journal.finish_interrupted([tmp_path / "deeper"]) == ([], [])
    assert [file.read_text() for file in files] == [NEW, OLD, OLD]
    assert journal.interrupted([tmp_path])


def test_a_record_reaches_through_no_link(files: list[Path], state: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.py").write_text(OLD)
    root = tmp_path / "deeper"
    (root / "link").symlink_to(outside)
    _half([root / "a.py", root / "link" / "b.py"], state)
    assert journal.finish_interrupted([root]) == ([], [])
    assert (outside / "b.py").read_text() == OLD


@pytest.mark.parametrize(
    "held",
    [
        "",
        "{",
        "[" * 100_000,
        "null",
        "1e400",
        "[1]",
        '{"process": 12345678901234567890123, "files": []}',
        '[{"path": 1, "name": "a", "before": "", "after": ""}]',
        '[{"path": "a\\u0000b", "name": "a", "before": "", "after": ""}]',
        '[{"path": ["a"], "name": "a", "before": "", "after": ""}]',
        '[{"name": "a"}]',
    ],
)
def test_a_record_without_sense_is_taken_away(files: list[Path], state: Path, held: str) -> None:
    _left(state, held)
    assert journal.finish_interrupted([files[0].parent]) == ([], [])
    assert not list(state.iterdir())


def test_the_command_says_so_and_finishes_it(tmp_path: Path, state: Path) -> None:
    def fix(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "dynalint", "fix", "--static", *options]
        return subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, check=False, env={**os.environ})

    _half([tmp_path / "a.py", tmp_path / "b.py"], state)
    ran = fix()
    assert ran.returncode == 2
    assert "an earlier fix of several files was interrupted; run `dynalint fix --apply` to finish it" in ran.stderr
    assert (tmp_path / "b.py").read_text() == OLD
    ran = fix("--apply")
    assert ran.returncode == 0
    assert "finished an interrupted fix of a.py and b.py" in ran.stderr
    assert (tmp_path / "b.py").read_text() == NEW
