"""What a repository says about the user's machine counts only once the user has trusted it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import BRANCH, Victim

pytestmark = pytest.mark.dynamo

PLANTED = '#!/bin/sh\ntouch "{mark}"\nexit 1\n'


@pytest.fixture
def mark(victim: Victim) -> Path:
    """What is there once a planted program has run."""
    return victim.home / "ran"


def plant(victim: Victim, name: str, mark: Path) -> Path:
    program = victim.write(f"repository/{name}", PLANTED.format(mark=mark))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def configure(victim: Victim, settings: str) -> None:
    victim.write("repository/pyproject.toml", f"[tool.dynalint]\n{settings}\n")
    victim.write("repository/model.py", BRANCH)


@pytest.mark.parametrize(
    "command",
    [["check", "--confirm", "."], ["fix", "--apply", "."], ["explain", "model.py"]],
    ids=" ".join,
)
def test_a_program_of_the_repository_is_not_started(victim: Victim, mark: Path, command: list[str]) -> None:
    plant(victim, "evil", mark)
    configure(victim, 'python = "./evil"')
    ran = victim.in_process(*command)
    assert not mark.exists()
    assert "(pyproject.toml:2) has no effect, because this project is not trusted" in ran.stderr


@pytest.mark.parametrize(
    # The last one changes PATH, with which a worker server is not kept.
    "key",
    ["extend", "python", *(pytest.param(one, marks=pytest.mark.long) for one in ("dynalint.toml", "below"))],
)
def test_nor_by_another_way_of_saying_so(victim: Victim, mark: Path, key: str) -> None:
    plant(victim, "evil", mark)
    configure(victim, 'python = "evil"' if key == "python" else "")
    path = f"{victim.repository}{os.pathsep}{os.environ['PATH']}" if key == "python" else os.environ["PATH"]
    if key == "extend":
        configure(victim, 'extend = "settings/base.toml"')
        victim.write("repository/settings/base.toml", 'python = "../evil"\n')
    elif key == "dynalint.toml":
        victim.write("repository/dynalint.toml", 'python = "./evil"\n')
    elif key == "below":
        victim.write("repository/models/dynalint.toml", 'python = "../evil"\n')
        victim.write("repository/models/model.py", BRANCH)
    victim.in_process("check", "models" if key == "below" else ".", PATH=path)
    assert not mark.exists()


WITHOUT_TORCH = """\
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "torch" else find(name, *rest)
from dynalint.__main__ import main
main()
"""


def without_torch(victim: Victim, *arguments: str) -> str:
    """Run a dynalint in whose own environment there is no torch, as in one that pipx made."""
    ran = subprocess.run(
        [sys.executable, "-P" if sys.version_info >= (3, 11) else "-I", "-c", WITHOUT_TORCH, *arguments],
        cwd=victim.repository, env=victim.environment({}), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return ran.stdout + ran.stderr


def chosen(victim: Victim) -> str:
    """The interpreter that would run the code."""
    shown = json.loads(without_torch(victim, "config", "show", "--output-format", "json"))
    return str(shown["interpreter"]["python"])


def plant_environment(victim: Victim, name: str, mark: Path) -> None:
    plant(victim, f"{name}/bin/python", mark)
    victim.write(f"repository/{name}/lib/python3.11/site-packages/torch/version.py", "")


def test_a_committed_environment_is_not_started(victim: Victim, mark: Path) -> None:
    configure(victim, "")
    plant_environment(victim, ".venv", mark)
    victim.commit()
    said = without_torch(victim, "check")
    assert not mark.exists()
    assert ".venv has torch but is not used" in said
    victim.in_process("trust")
    assert chosen(victim) == sys.executable


def test_the_users_own_is(victim: Victim, mark: Path) -> None:
    configure(victim, "")
    victim.commit()
    plant_environment(victim, ".venv", mark)
    assert chosen(victim) == str(victim.repository / ".venv/bin/python")


@pytest.mark.parametrize("git", [True, False])
def test_one_that_came_without_a_history_is_not_started(victim: Victim, mark: Path, git: bool) -> None:
    # An archive: no git, or a repository that cannot be read.
    configure(victim, "")
    plant_environment(victim, "venv", mark)
    if git:
        victim.write("repository/.git/HEAD", "nonsense")
    assert chosen(victim) == sys.executable


def test_a_committed_link_to_an_environment_is_not_followed(victim: Victim, mark: Path) -> None:
    configure(victim, "")
    plant_environment(victim, "hidden", mark)
    (victim.repository / ".venv").symlink_to("hidden")
    victim.commit()
    assert chosen(victim) == sys.executable


def test_the_search_stops_at_the_root_of_the_project(victim: Victim, mark: Path) -> None:
    configure(victim, "")
    victim.commit()
    plant(victim, "../.venv/bin/python", mark)
    victim.write(".venv/lib/python3.11/site-packages/torch/version.py", "")
    assert chosen(victim) == sys.executable


@pytest.mark.parametrize(
    ("setting", "key", "value"),
    [
        ('confirm = "always"', "confirm", "auto"),
        ('cache-dir = "../home/.ssh"', "cache-dir", None),
        ('device = "cuda"', "device", "cpu"),
        ("timeout = 1e9", "timeout", 60.0),
        ("memory = 99999999", "memory", 4096),
        ("jobs = 100000", "jobs", None),
    ],
    ids=lambda one: str(one).partition(" ")[0],
)
def test_walls_stand_where_a_repository_would_lower_them(victim: Victim, setting: str, key: str, value: object) -> None:
    configure(victim, setting)
    shown = json.loads(victim.in_process("config", "show", "--output-format", "json").stdout)
    now = shown["settings"][key]["value"]
    assert now == value if key != "jobs" else now < 100000
    assert shown["ignored"][key]["origin"] == "pyproject.toml:2"
    assert victim.in_process("trust").returncode == 0
    shown = json.loads(victim.in_process("config", "show", "--output-format", "json").stdout)
    assert shown["settings"][key]["value"] != value
    assert shown["ignored"] == {}


@pytest.mark.parametrize("setting", ['confirm = "never"', "timeout = 5", "memory = 100", "jobs = 1"])
def test_what_raises_walls_counts(victim: Victim, setting: str) -> None:
    configure(victim, setting)
    shown = json.loads(victim.in_process("config", "show", "--output-format", "json").stdout)
    assert shown["ignored"] == {}
    assert shown["settings"][setting.partition(" ")[0]]["origin"] == "pyproject.toml:2"


def test_trust_is_for_what_was_asked_then(victim: Victim, mark: Path) -> None:
    configure(victim, f'python = "{sys.executable}"')
    assert "takes effect from now on" in victim.in_process("trust").stderr
    assert "not trusted" not in victim.in_process("config", "show").stdout
    # The rest of the file may change.
    configure(victim, f'select = ["DYN"]\npython = "{sys.executable}"')
    assert "not trusted" not in victim.in_process("config", "show").stdout
    plant(victim, "evil", mark)
    configure(victim, 'python = "./evil"')
    assert "not trusted" in victim.in_process("check", ".").stderr
    assert not mark.exists()


def test_trust_is_for_one_place_and_can_be_taken_back(victim: Victim) -> None:
    configure(victim, "memory = 9999")
    victim.in_process("trust")
    copy = victim.write("repository/copy/pyproject.toml", "[tool.dynalint]\nmemory = 9999\n").parent
    assert "not trusted" in victim.in_process("config", "show", str(copy)).stdout
    assert "is no longer trusted" in victim.in_process("trust", "--revoke").stderr
    assert "not trusted" in victim.in_process("config", "show").stdout


@pytest.mark.parametrize("held", ["", "[]", "{", "[" * 50_000, '{"/": 1}', "null"])
def test_what_is_remembered_wrongly_trusts_nobody(victim: Victim, held: str) -> None:
    configure(victim, "memory = 9999")
    victim.write("home/.local/state/dynalint/trusted.json", held)
    assert "not trusted" in victim.in_process("config", "show").stdout
    assert victim.in_process("trust").returncode == 0
    assert "not trusted" not in victim.in_process("config", "show").stdout


def test_a_relative_folder_of_the_environment_is_not_the_repositorys(victim: Victim) -> None:
    # `XDG_STATE_HOME=state` would be looked for in whatever is the working directory.
    configure(victim, "memory = 9999")
    victim.in_process("trust")
    remembered = (victim.home / ".local/state/dynalint/trusted.json").read_text()
    victim.in_process("trust", "--revoke")
    victim.write("repository/state/dynalint/trusted.json", remembered)
    shown = victim.in_process("config", "show", XDG_STATE_HOME="state").stdout
    assert "not trusted" in shown


def test_the_users_own_settings_count_in_every_project(victim: Victim) -> None:
    configure(victim, "")
    victim.write("home/.config/dynalint/dynalint.toml", 'memory = 9999\nselect = ["DYN4"]\n')
    shown = json.loads(victim.in_process("config", "show", "--output-format", "json").stdout)
    assert shown["settings"]["memory"]["value"] == 9999
    # But the same project is judged alike for everybody.
    assert shown["settings"]["select"]["origin"] == "default"


KEPT = ("verdicts", "evidence", "last")


def link_cache(victim: Victim, name: str) -> Path:
    """Put a cache into the repository all parts of which lead to the user's keys."""
    cache = victim.repository / name
    cache.mkdir()
    for part in KEPT:
        (cache / part).symlink_to(victim.home / ".ssh")
    return cache


def test_a_cache_in_the_repository_is_not_read_or_written(victim: Victim) -> None:
    configure(victim, "")
    cache = link_cache(victim, ".dynalint_cache")
    victim.in_process("check", ".")
    victim.in_process("clean")
    victim.assert_unharmed()
    assert [path.name for path in (victim.home / ".ssh").iterdir()] == ["id_ed25519"]
    assert sorted(path.name for path in cache.iterdir()) == sorted(KEPT)


def test_a_cache_that_the_user_puts_into_the_repository_is_written_through_no_link(victim: Victim) -> None:
    configure(victim, "")
    link_cache(victim, "cache")
    victim.in_process("check", "--cache-dir", "cache", ".")
    victim.in_process("clean", "--config", 'cache-dir = "cache"')
    victim.assert_unharmed()
    assert [path.name for path in (victim.home / ".ssh").iterdir()] == ["id_ed25519"]


def test_the_interpreter_and_its_torch_are_named(victim: Victim) -> None:
    configure(victim, "")
    ran = victim.in_process("check", "-v", ".")
    assert f" Code was run by {sys.executable} with torch " in ran.stdout.splitlines()[-1]
    assert f"code is run by {sys.executable} with torch " in ran.stderr
    assert f"# Code is run by {sys.executable}, with torch " in victim.in_process("config", "show").stdout
