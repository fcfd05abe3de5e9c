"""What is rarely compiled is counted, not listed: for people. Programs get everything, and `--all` shows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

DRIVER = """\
import torch
from torch import nn


class Driver(nn.Module):
    def forward(self, model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        print(x)
        return model(x)
"""
COUNTED = "2 findings in code that is rarely compiled; to see them, pass `--all`.\n"


@pytest.fixture
def driver(place: Path) -> Path:
    path = place / "driver.py"
    path.write_text(DRIVER)
    return path


@pytest.mark.parametrize("form", ["full", "concise", "grouped"])
def test_it_is_counted_and_fails_nothing(dynalint: Run, driver: Path, form: str) -> None:
    ran = dynalint("check", "--static", "--output-format", form)
    assert (ran.out, ran.code) == (f"All checks passed!\n{COUNTED}", 0)


def test_all_shows_it_and_says_why(dynalint: Run, driver: Path) -> None:
    ran = dynalint("check", "--static", "--all", "--show-fixes")
    assert ran.code == 1
    assert ran.out.count("= rarely compiled: `Driver.forward` takes a model as an argument\n") == 2
    assert ran.out.endswith("Found 2 findings (1 fixable with `dynalint fix --apply`).\n")


def test_it_stands_below_what_is_listed(dynalint: Run, driver: Path, model: Path) -> None:
    ran = dynalint("check", "--static", "--output-format", "concise")
    assert ran.code == 1
    assert [line.partition(":")[0] for line in ran.out.splitlines()[:2]] == ["model.py", "model.py"]
    assert ran.out.endswith("\n2 more in code that is rarely compiled; to see them, pass `--all`.\n")


@pytest.mark.parametrize("form", ["json", "sarif", "gitlab", "junit"])
def test_programs_get_it_and_it_fails_nothing(dynalint: Run, driver: Path, form: str) -> None:
    ran = dynalint("check", "--static", "--output-format", form)
    assert ran.code == 0
    assert "DYN101" in ran.out
    assert "DYN401" in ran.out


def test_json_tells_it_apart(check: Run, driver: Path, model: Path) -> None:
    ran = check()
    assert ran.code == 1
    assert [(one["path"], one["likelihood"]) for one in ran.json[1:3]] == [
        ("driver.py", "unlikely"),
        ("model.py", "likely"),
    ]


def test_annotations_leave_it_out(dynalint: Run, driver: Path) -> None:
    ran = dynalint("check", "--static", "--output-format", "github")
    assert (ran.out, ran.code) == ("", 0)
    assert dynalint("check", "--static", "--all", "--output-format", "github").out.count("::error") == 1


def test_statistics_count_it(dynalint: Run, driver: Path) -> None:
    ran = dynalint("check", "--static", "--statistics", "--output-format", "json")
    assert ran.code == 0
    assert [(one["found"], one["unlikely"]) for one in ran.json["rules"]] == [(1, 1), (1, 1)]


def test_a_baseline_holds_it(dynalint: Run, driver: Path) -> None:
    dynalint("check", "--static", "--write-baseline", "b.json")
    ran = dynalint("check", "--static", "--all", "--baseline", "b.json")
    assert (ran.out, ran.code) == ("All checks passed! (2 hidden by the baseline)\n", 0)


def test_comments_are_written_for_what_is_shown(dynalint: Run, driver: Path) -> None:
    dynalint("check", "--static", "--add-ignore")
    assert driver.read_text() == DRIVER
    dynalint("check", "--static", "--all", "--add-ignore")
    assert driver.read_text().count("# dynalint: ignore[") == 2


def test_fix_leaves_it_alone_and_says_so(dynalint: Run, driver: Path) -> None:
    ran = dynalint("fix", "--static")
    assert (ran.out, ran.code) == ("", 0)
    assert "1 more in code that is rarely compiled can be fixed; to include it, pass `--all`." in ran.err
    ran = dynalint("fix", "--static", "--apply")
    assert (ran.out, ran.code) == (f"All checks passed!\n{COUNTED}", 0)
    assert driver.read_text() == DRIVER


def test_fix_takes_it_with_all(dynalint: Run, driver: Path) -> None:
    ran = dynalint("fix", "--static", "--all")
    assert "+        if not flag: pass" in ran.out
    assert ran.code == 1


def test_what_settings_name_as_a_root_is_listed(dynalint: Run, driver: Path) -> None:
    ran = dynalint("check", "--static", "--config", 'roots = ["driver:Driver"]', "--output-format", "concise")
    assert ran.code == 1
    assert ran.out.count("driver.py:") == 2
