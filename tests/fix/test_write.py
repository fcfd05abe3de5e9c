"""Writing: whole files, together or not at all, and only over what was read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dynalint.fix import write as writing
from dynalint.fix.write import FileWrite, WriteError, write_groups, write_together


def write(path: Path, before: bytes = b"old\n", after: bytes = b"new\n") -> FileWrite:
    return FileWrite(path, path.name, before, after)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.py"
    path.write_bytes(b"old\n")
    return path


def test_content_is_replaced_and_the_mode_stays(file: Path) -> None:
    file.chmod(0o754)
    write_together([write(file)])
    assert file.read_bytes() == b"new\n"
    assert file.stat().st_mode & 0o777 == 0o754
    assert [path.name for path in file.parent.iterdir()] == ["m.py"]


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.py"
    link.symlink_to(file)
    write_together([write(link)])
    assert link.is_symlink()
    assert file.read_bytes() == b"new\n"


def test_a_file_that_has_changed_is_left_alone(file: Path) -> None:
    file.write_bytes(b"edited\n")
    with pytest.raises(WriteError, match=r"m\.py: not fixed: the file was changed while dynalint ran"):
        write_together([write(file)])
    assert file.read_bytes() == b"edited\n"


def test_a_read_only_file_is_left_alone(file: Path) -> None:
    file.chmod(0o444)
    with pytest.raises(WriteError, match="read-only"):
        write_together([write(file)])
    assert file.read_bytes() == b"old\n"


def test_one_missing_file_keeps_its_group_and_no_other(file: Path, tmp_path: Path) -> None:
    partner, lone, missing = (tmp_path / name for name in ("partner.py", "lone.py", "missing.py"))
    partner.write_bytes(b"old\n")
    lone.write_bytes(b"old\n")
    writes = {path: write(path) for path in (file, partner, lone, missing)}
    written, failures = write_groups([(missing, partner), (lone,), (file,)], writes)
    assert written == {lone, file}
    assert failures == [
        "missing.py: not fixed: the file is gone; partner.py not written either, because the fix changes them together"
    ]
    assert partner.read_bytes() == b"old\n"


def test_a_failure_between_two_files_takes_the_first_back(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.py"
    other.write_bytes(b"old\n")
    real = writing._replace

    def fail_on_other(one: FileWrite, temporary: Path, target: Path) -> None:
        if one.path == other:
            raise WriteError("other.py: not fixed: the disk is full")
        real(one, temporary, target)

    monkeypatch.setattr(writing, "_replace", fail_on_other)
    with pytest.raises(WriteError, match="disk is full"):
        write_together([write(file), write(other)])
    assert file.read_bytes() == b"old\n"
    assert other.read_bytes() == b"old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.py", "other.py"]


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.py"
    os.mkfifo(pipe)
    with pytest.raises(WriteError, match="not a regular file"):
        write_together([write(pipe)])
