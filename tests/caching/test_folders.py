"""Records in a cache folder."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dynalint.caching.folders import Records


def test_a_record_comes_back(tmp_path: Path) -> None:
    records = Records(tmp_path / "there", 3, 1000)
    records.put("key", {"name": ["\udcff", "é", 1, None]})
    assert records.get("key") == {"name": ["\udcff", "é", 1, None]}
    assert records.get("other") is None
    assert (tmp_path / ".gitignore").read_text() == "*\n"


def test_nothing_is_kept_without_a_folder() -> None:
    records = Records(None, 3, 1000)
    records.put("key", 1)
    assert records.get("key") is None


def test_the_ones_used_longest_ago_make_room(tmp_path: Path) -> None:
    records = Records(tmp_path, 3, 10_000)
    for number, key in enumerate("abc"):
        records.put(key, number)
        os.utime(tmp_path / f"{key}.json", (number, number))
    assert records.get("a") == 0  # and is the latest now
    records.put("d", 3)
    assert {path.stem for path in tmp_path.glob("*.json")} == {"a", "c", "d"}


def test_large_ones_make_room_too(tmp_path: Path) -> None:
    records = Records(tmp_path, 100, 1000)
    for number in range(10):
        records.put(str(number), "x" * 300)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1000
    records.put("large", "x" * 600)
    assert records.get("large") is None


def test_what_killed_runs_left_behind_makes_room(tmp_path: Path) -> None:
    for name in (".tmp-old", ".tmp-new"):
        (tmp_path / name).write_text("")
    os.utime(tmp_path / ".tmp-old", (1, 1))
    Records(tmp_path, 3, 1000).put("key", 1)
    assert {path.name for path in tmp_path.iterdir()} == {".tmp-new", "key.json"}


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data.replace(b"1", b"2"), lambda data: b""])
def test_a_damaged_file_counts_as_missing(tmp_path: Path, damage: object) -> None:
    records = Records(tmp_path, 3, 1000)
    records.put("key", [1])
    path = tmp_path / "key.json"
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    assert records.get("key") is None


def test_many_writers(tmp_path: Path) -> None:
    def use(number: int) -> bool:
        records = Records(tmp_path, 3, 10_000)
        records.put("shared", ["x" * 1000, number % 4])
        return records.get("shared") in [["x" * 1000, one] for one in range(4)]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(use, range(200)))
