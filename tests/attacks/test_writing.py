"""What a repository holds does not make `fix` write or delete anything but the fixed files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .conftest import SECRET, Victim

PRINTS = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print(x)
        return x
"""
GUARDED = PRINTS.replace("        print(x)\n", "        if not torch.compiler.is_compiling():\n            print(x)\n")


@pytest.fixture
def fixable(victim: Victim) -> Victim:
    victim.write("repository/model.py", PRINTS)
    victim.write("repository/pyproject.toml", "[tool.dynalint]\n")
    return victim


def fix(victim: Victim, *paths: str) -> str:
    """Run what the shipped hook runs; return what was said."""
    ran = victim.dynalint("fix", "--apply", "--static", *(paths or ("model.py",)))
    assert "is a bug in dynalint" not in ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stderr


@pytest.mark.parametrize("named", ["link.py", "."])
def test_nothing_is_written_through_a_link_out_of_the_project(fixable: Victim, named: str) -> None:
    outside = fixable.write("home/other/model.py", PRINTS)
    (fixable.repository / "link.py").symlink_to(outside)
    said = fix(fixable, named)
    assert outside.read_text() == PRINTS
    assert "link.py" in said


@pytest.mark.parametrize("named", ["linked/model.py", "."])
def test_nor_through_a_linked_folder(fixable: Victim, named: str) -> None:
    outside = fixable.write("home/other/model.py", PRINTS)
    (fixable.repository / "linked").symlink_to(outside.parent)
    fix(fixable, named)
    assert outside.read_text() == PRINTS


def test_a_home_that_is_kept_in_git_is_no_project_of_what_is_below(victim: Victim) -> None:
    (victim.home / ".git").mkdir()
    outside = victim.write("home/work/model.py", PRINTS)
    model = victim.write("home/download/model.py", PRINTS)
    (model.parent / "link.py").symlink_to(outside)
    victim.repository = model.parent
    fix(victim, ".")
    assert outside.read_text() == PRINTS
    assert model.read_text() == GUARDED


def test_what_the_configuration_includes_is_inside_the_project(fixable: Victim) -> None:
    outside = fixable.write("home/other/model.py", PRINTS)
    fixable.write(
        "repository/pyproject.toml", f'[tool.dynalint]\ninclude = [".", "{outside.parent}", "../home/other"]\n'
    )
    ran = fixable.dynalint("fix", "--apply", "--static")
    assert outside.read_text() == PRINTS
    assert ran.stderr.count("`include` leads out of the project") == 2
    assert (fixable.repository / "model.py").read_text() == GUARDED


@pytest.mark.skipif(os.name == "nt", reason="counts names by inodes")
@pytest.mark.may_skip
def test_other_names_of_a_file_are_named_and_stay(fixable: Victim) -> None:
    other = fixable.home / "same.py"
    os.link(fixable.repository / "model.py", other)
    said = fix(fixable)
    assert "model.py had 1 other name (hard links), which still have the old contents" in said
    assert other.read_text() == PRINTS
    assert (fixable.repository / "model.py").read_text() == GUARDED


def test_a_link_in_place_of_what_is_staged_is_not_followed(fixable: Victim) -> None:
    # Names of staged files cannot be guessed; those that look alike are no use.
    for token in ("0" * 16, "unfinished"):
        link = fixable.repository / f".dynalint-{token}-00000000.tmp"
        link.symlink_to(fixable.home / ".ssh" / "id_ed25519")
    fix(fixable)
    fixable.assert_unharmed()


@pytest.mark.parametrize("command", [["check", "."], ["fix", "."], ["clean"], ["config", "show"], ["rule", "DYN101"]])
def test_what_only_reads_leaves_the_repository_as_it_is(fixable: Victim, command: list[str]) -> None:
    before = tree(fixable.repository)
    fixable.dynalint(*command, *(["--static"] if command[0] in ("check", "fix") else []))
    assert tree(fixable.repository) == before


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_secret_stands_in_no_report(fixable: Victim) -> None:
    (fixable.repository / "key.py").symlink_to(fixable.home / ".ssh" / "id_ed25519")
    for arguments in (["check", "--static", "."], ["check", "--static", "key.py"], ["fix", "--static", "."]):
        ran = fixable.dynalint(*arguments)
        assert SECRET not in ran.stdout + ran.stderr
