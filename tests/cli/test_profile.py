"""`--profile` says where the processor time goes, and charges each part of it once."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dynalint import profiling
from dynalint.profiling import Profile, charged, count, measuring


def burn(seconds: float) -> None:
    """Use the processor for a while."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def read(text: str) -> tuple[float, dict[str, dict[str, float]]]:
    """Return the total, and the rows of each table by its title."""
    head, *tables = text.strip().split("\n\n")
    found = re.fullmatch(r"processor time: ([\d.]+) s, and [\d.]+ s in other processes", head)
    assert found is not None
    rows: dict[str, dict[str, float]] = {}
    for table in tables:
        title, *lines = table.splitlines()
        pairs = (line.split(maxsplit=1) for line in lines)
        rows[title.split()[1]] = {name: float(spent) for spent, name in pairs}
    return float(found[1]), rows


def test_the_innermost_stage_file_and_rule_is_charged() -> None:
    with measuring() as profile:
        with charged("outer", file=Path("a.py"), rule="DYN101"):
            burn(0.02)
            with charged("inner", file=Path("b.py")):
                burn(0.06)
            count("inner", 3)
        burn(0.01)
    assert profile.stages["outer"] == pytest.approx(0.02, abs=0.015)
    assert profile.stages["inner"] == pytest.approx(0.06, abs=0.015)
    assert profile.files[Path("a.py")] == profile.stages["outer"]
    assert profile.files[Path("b.py")] == profile.stages["inner"]
    assert profile.rules["DYN101"] == pytest.approx(profile.stages["outer"] + profile.stages["inner"])
    assert profile.stages["starting"] >= 0.01
    assert profile.counts == {"inner": 3}


def test_a_whole_stage_is_not_divided() -> None:
    with measuring() as profile:
        with charged("outer", whole=True), charged("inner", file=Path("a.py")):
            burn(0.02)
        with charged("after"):
            burn(0.01)
    assert profile.stages.keys() == {"starting", "outer", "after"}
    assert not profile.files


def test_the_stage_before_goes_on_after_an_exception() -> None:
    with measuring() as profile:
        with pytest.raises(ValueError, match="no"), charged("outer"), charged("inner"):
            raise ValueError("no")
        burn(0.01)
    assert profile.stages["starting"] >= 0.01


def test_nothing_is_measured_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Profile, "charge", lambda _: pytest.fail("measured"))
    with charged("stage", file=Path("a.py")):
        count("stage")
    assert profiling._active is None


def test_a_check_adds_up(dynalint: Callable[..., Any], model: Path) -> None:
    plain = dynalint("check", "--static", "--no-cache", "--output-format", "json")
    ran = dynalint("check", "--static", "--no-cache", "--output-format", "json", "--profile", "--quiet")
    assert (ran.code, ran.json) == (plain.code, plain.json)
    total, rows = read(ran.err)
    stages = rows["stage"]
    assert sum(stages.values()) == pytest.approx(total, abs=0.005 * len(stages) + 0.005)
    assert {
        "starting",
        "finding files (1 file)",
        "parsing (1 file)",
        "indexing (1 module)",
        "reporting",
    } <= stages.keys()
    assert {"rules (2 findings)", "fixes (2 findings)"} <= stages.keys()
    assert any(name.startswith("interpretation (") for name in stages)
    assert [*rows["file"]] == [model.name]
    assert {*rows["rule"]} == {"DYN101", "DYN401"}


def test_a_fix_shows_what_trying_fixes_costs(dynalint: Callable[..., Any], model: Path) -> None:
    ran = dynalint("fix", "--static", "--profile")
    assert "trying fixes" in read(ran.err[ran.err.index("processor time:") :])[1]["stage"]


def test_it_ends_with_the_profile_even_if_it_fails(dynalint: Callable[..., Any], model: Path) -> None:
    ran = dynalint("check", "--static", "--profile", "missing.py")
    assert ran.code == 2
    assert "starting" in ran.err


def test_not_while_watching(dynalint: Callable[..., Any], model: Path) -> None:
    ran = dynalint("check", "--static", "--profile", "--watch")
    assert ran.code == 2
    assert "--watch and --profile cannot be combined" in ran.err
