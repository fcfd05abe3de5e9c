"""Verdicts that are kept, and when they stop being true."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalint.confirm.cache import VerdictCache

QUESTION = {"target": ["/x/model.py", "model", "Model"], "torch": "2.13.0"}
ANSWER = {"outcome": "done", "parts": {"files": []}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text("x = 1\n")
    return path


def kept(tmp_path: Path, file: Path) -> VerdictCache:
    cache = VerdictCache(tmp_path / "cache", {})
    cache.put(QUESTION, {str(file): [[1, 0, 1, 5]]}, [str(file)], ANSWER)
    return VerdictCache(tmp_path / "cache", {})


def test_an_answer_comes_back_while_the_files_are_the_same(tmp_path: Path, file: Path) -> None:
    cache = kept(tmp_path, file)
    known = cache.get(QUESTION, {str(file): [[1, 0, 1, 5]]})
    assert known == {"answer": ANSWER, "spots": {str(file): [[1, 0, 1, 5]]}}
    assert cache.get({**QUESTION, "torch": "2.12.0"}, {}) is None


def test_a_changed_file_makes_it_forget(tmp_path: Path, file: Path) -> None:
    kept(tmp_path, file)
    file.write_text("x = 2\n")
    assert VerdictCache(tmp_path / "cache", {}).get(QUESTION, {}) is None
    file.unlink()
    assert VerdictCache(tmp_path / "cache", {}).get(QUESTION, {}) is None


def test_a_text_in_place_of_the_file_counts(tmp_path: Path, file: Path) -> None:
    kept(tmp_path, file)
    assert VerdictCache(tmp_path / "cache", {str(file): "x = 1\n"}).get(QUESTION, {}) is not None
    assert VerdictCache(tmp_path / "cache", {str(file): "x = 3\n"}).get(QUESTION, {}) is None


def test_a_new_range_in_a_file_that_ran_asks_again(tmp_path: Path, file: Path) -> None:
    cache = kept(tmp_path, file)
    assert cache.get(QUESTION, {str(file): [[1, 4, 1, 5]]}) is None
    assert cache.get(QUESTION, {"/elsewhere.py": [[1, 4, 1, 5]]}) is not None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"format":1}', b"\xff\xfe", b'{"format":99}'])
def test_a_broken_entry_counts_as_missing(tmp_path: Path, file: Path, content: bytes) -> None:
    cache = kept(tmp_path, file)
    (entry,) = (tmp_path / "cache" / "verdicts").glob("*.json")
    entry.write_bytes(content)
    assert cache.get(QUESTION, {}) is None


def test_nothing_is_kept_without_a_folder_or_where_it_cannot_be_written(tmp_path: Path, file: Path) -> None:
    nowhere = VerdictCache(None, {})
    nowhere.put(QUESTION, {}, [], ANSWER)
    assert nowhere.get(QUESTION, {}) is None
    blocked = VerdictCache(file, {})
    blocked.put(QUESTION, {}, [], ANSWER)
    assert blocked.get(QUESTION, {}) is None


def test_the_folder_keeps_itself_out_of_git_and_holds_whole_files_only(tmp_path: Path, file: Path) -> None:
    kept(tmp_path, file)
    assert (tmp_path / "cache" / ".gitignore").read_text() == "*\n"
    assert [path.suffix for path in (tmp_path / "cache" / "verdicts").iterdir()] == [".json"]
