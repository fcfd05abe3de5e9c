"""A file is judged as part of its project, whichever of its files are named, and nothing is said of the others."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dynalint
from dynalint import engine
from dynalint.config import Configuration, Overrides, parse_layer
from dynalint.projects import related_files
from dynalint.projects.workspace import open_workspace
from dynalint.rulebook.catalogue import known_codes

Run = Callable[..., Any]

PROJECT = {
    "pyproject.toml": "[project]\nname = 'p'\n",
    "src/p/__init__.py": "from .layers import *\nfrom .models import Model, Tall\n__version__ = '1'\n",
    # Helpers whose callers stand elsewhere.
    "src/p/ops.py": """
        def scale(x, limit):
            if x.sum() > limit:
                return x / 2
            return x

        def unused(x):
            if x.sum() > 0:
                return x
            return -x

        def size(x):
            return x.item() if x.numel() == 1 else x.size(0)
        """,
    # A base whose `forward` calls what classes in other files put in.
    "src/p/base.py": """
        import torch
        from torch import nn

        class Base(nn.Module):
            def forward(self, x):
                return self.apply_to(x)

            def apply_to(self, x):
                raise NotImplementedError
        """,
    "src/p/layers.py": """
        from.base import Base
        from . import ops

        __all__ = ["Layer"]

        class Layer(Base):
            def apply_to(self, x):
                if (x > 1).any():
                    x = ops.scale(x, 3)
                return x
        """,
    "src/p/models.py": """
        from torch import nn
        from p import (  # the package hands it on
            Layer,
        )
        from p.hidden import Hidden

        class Model(nn.Module):
            def __init__(self, hidden: Hidden):
                super().__init__()
                self.layer, self.hidden = Layer(), hidden

            def forward(self, x, n: int):
                return self.layer(x) + self.hidden.shift(x, n)

        class Tall(Model):
            pass
        """,
    "src/p/hidden.py": """
        class Hidden:
            def shift(self, x, n):
                while n > 0 and x.max() < n:
                    x = x + 1
                return x
        """,
    # Compiled from a script, called from a test.
    "src/p/free.py": """
        def free(x):
            print("free")
            return x + 1
        """,
    "scripts/train.py": """
        import torch
        from p.free import free

        fast = torch.compile(free)
        fast(torch.ones(3))
        """,
    "tests/test_p.py": """
        import torch
        import p
        import p.ops

        def test_size():
            step = torch.compile(lambda x: p.ops.size(x) + 1)
            assert step(torch.ones(1)) == 2
        """,
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in PROJECT.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(findings: list[dynalint.Finding]) -> list[tuple[object, ...]]:
    return [(one.path, one.line, one.code, one.message, one.category, one.region, one.fix) for one in findings]


def test_all_files_one_by_one_show_what_the_whole_shows(project: Path) -> None:
    whole = told(dynalint.check(static=True))
    assert {path for path, *_ in whole} >= {"src/p/ops.py", "src/p/layers.py", "src/p/hidden.py", "src/p/free.py"}
    alone = [finding for path in sorted(project.rglob("*.py")) for finding in told(dynalint.check([path], static=True))]
    assert sorted(alone, key=str) == sorted(whole, key=str)


def test_some_files_and_folders_show_what_the_whole_shows_of_them(project: Path) -> None:
    whole = told(dynalint.check(static=True))
    named = ("src/p/ops.py", "src/p/hidden.py")
    assert told(dynalint.check(named, static=True)) == [one for one in whole if one[0] in named]
    assert told(dynalint.check(["src"], static=True)) == [one for one in whole if str(one[0]).startswith("src/")]


def test_text_in_place_of_a_file_is_part_of_the_project_too(project: Path) -> None:
    path = project / "src/p/ops.py"
    whole = [one for one in told(dynalint.check(static=True)) if one[0] == "src/p/ops.py"]
    assert told(dynalint.check_source(path, path.read_text())) == whole


def test_what_settings_leave_out_has_no_bearing(project: Path) -> None:
    (project / "dynalint.toml").write_text('include = ["src"]\n')
    assert not dynalint.check(["src/p/free.py"], static=True)
    (project / "dynalint.toml").write_text('exclude = ["scripts"]\n')
    assert not dynalint.check(["src/p/free.py"], static=True)


def test_in_a_folder_of_anything_only_its_scripts_and_the_package_are_read(project: Path) -> None:
    (project / "pyproject.toml").unlink()
    (project / "src/run.py").write_text("import torch\nfrom p.free import free\n\nfast = torch.compile(free)\n")
    assert [one.line for one in dynalint.check(["src/p/free.py"], static=True)] == [2]
    (project / "src/run.py").unlink()
    assert not dynalint.check(["src/p/free.py"], static=True)
    assert dynalint.check(["src/p/layers.py"], static=True)


def _around(*names: str) -> tuple[list[str], tuple[str, ...]]:
    folder = Path.cwd()
    layer = parse_layer({"confirm": "never"}, folder, lambda _: "test")
    configuration = Configuration(Overrides((layer,)), known_codes(), folder)
    workspace, notes = engine.in_project(open_workspace([Path(one) for one in names], configuration, folder)[0])
    return [path.relative_to(folder).as_posix() for path in workspace.around], notes


def test_only_what_has_a_bearing_is_read(project: Path) -> None:
    assert _around("src/p/free.py") == (["scripts/train.py"], ())
    assert _around(".") == _around("tests", "src", "scripts") == ([], ())
    assert "scripts/train.py" not in _around("src/p/ops.py")[0]


def test_a_script_beside_src_hides_no_user(project: Path) -> None:
    (project / "setup.py").write_text("from setuptools import setup\n\nsetup()\n")
    assert _around("src/p/free.py") == (["scripts/train.py"], ())
    assert dynalint.check(["src/p/free.py"], static=True)


def test_what_would_be_too_much_is_left_out_and_said_so(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(related_files, "MOST_TEXT", 1)
    for number in range(9):
        (project / f"scripts/more{number}.py").write_text((project / "scripts/train.py").read_text() * 20)
    found, notes = _around("src/p/free.py")
    assert len(found) < 9
    assert "around the named ones could not be read" in notes[0]
    monkeypatch.setattr(related_files, "MOST_FILES", 3)
    assert _around("src/p/free.py")[0] == []


@pytest.mark.usefixtures("project")
def test_the_command_line_says_nothing_of_other_files(dynalint: Run) -> None:
    alone = dynalint("check", "--static", "--output-format", "json", "src/p/ops.py", "src/p/free.py")
    whole = dynalint("check", "--static", "--output-format", "json", ".")
    assert alone.code == 1
    assert alone.json == [one for one in whole.json if one["path"] in ("src/p/ops.py", "src/p/free.py")]


@pytest.mark.usefixtures("project")
def test_a_file_alone_is_fixed_as_with_the_whole(dynalint: Run) -> None:
    alone = dynalint("fix", "--static", "src/p/free.py")
    assert alone.code == 1
    assert alone.out in dynalint("fix", "--static").out
    assert dynalint("fix", "--static", "--apply", "src/p/free.py").code == 0


def test_an_outline_is_worked_out_again_only_for_another_text(tmp_path: Path) -> None:
    known, path = related_files.Outlines(), tmp_path / "m.py"
    first = known.of(path, "m", "x = 1\n")
    assert known.of(path, "m", "x = 1\n") is first
    assert set(known.of(path, "m", "y = 1\n").bindings) == {"y"}
    assert known.of(path, "p.m", "y = 1\n").name == "p.m"
