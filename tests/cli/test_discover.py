"""Which files are checked."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dynalint.config import Configuration, Overrides, inline_layer
from dynalint.errors import UsageError
from dynalint.projects.discover import discover

Find = Callable[..., list[str]]


@pytest.fixture
def find(place: Path) -> Find:
    """Names of the files found in `paths`, by default the working directory, with settings in TOML."""

    def call(*paths: str, settings: str = "", force_exclude: bool = False) -> list[str]:
        layers = tuple(inline_layer(line, place) for line in settings.splitlines())
        configuration = Configuration(Overrides(layers, isolated=True), ("DYN901",), place)
        named = [place / path for path in paths or ["."]]
        found = discover(named, configuration.for_directory, force_exclude=force_exclude)
        assert found.failures == ()
        return [os.path.relpath(path, place) for path in found.files]

    return call


def tree(*paths: str) -> None:
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text("")


def test_python_files_below_a_directory_in_order(find: Find) -> None:
    tree("b.py", "a/z.py", "a/b/c.py", "a.py", "a/data.txt", "script", "a.pyi", "n.ipynb", "with space, and:more%.py")
    assert find() == ["a/b/c.py", "a/z.py", "a.py", "b.py", "n.ipynb", "with space, and:more%.py"]
    assert find("b.py", "a", "a/z.py", "./a/../b.py") == ["a/b/c.py", "a/z.py", "b.py"]


def test_a_file_that_is_named_is_taken_whatever_its_suffix(find: Find) -> None:
    tree("script", "stub.pyi", "notes.ipynb")
    assert find("script", "stub.pyi", "notes.ipynb") == ["notes.ipynb", "script"]


def test_a_missing_path(find: Find) -> None:
    with pytest.raises(UsageError, match=r"^no\.py: no such file or directory\.$"):
        find("no.py")


def test_usual_places_are_passed_over_unless_they_are_named(find: Find) -> None:
    tree(
        ".venv/lib/site-packages/pkg/m.py", "build/lib/m.py", "env/m.py", "env/pyvenv.cfg", "a/__pycache__/m.py", "m.py"
    )
    assert find() == ["m.py"]
    assert find("build") == ["build/lib/m.py"]
    assert find("build/lib") == ["build/lib/m.py"]
    assert find(".venv/lib/site-packages/pkg") == [".venv/lib/site-packages/pkg/m.py"]
    assert find("env") == ["env/m.py"]
    tree("build/lib/node_modules/x.py", "build/dist/y.py")
    assert find("build") == ["build/lib/m.py"]


def test_exclude(find: Find) -> None:
    tree("a/gen/x.py", "gen/x.py", "a/x_pb2.py", "a/x.py", "build/x.py")
    assert find(settings='extend-exclude = ["gen", "*_pb2.py"]') == ["a/x.py"]
    assert find(settings='extend-exclude = ["/gen"]') == ["a/gen/x.py", "a/x.py", "a/x_pb2.py"]
    assert find(settings='exclude = ["a"]') == ["build/x.py", "gen/x.py"]
    assert find(settings='exclude = ["a/*", "!a/gen"]') == ["a/gen/x.py", "build/x.py", "gen/x.py"]


def test_force_exclude(find: Find) -> None:
    tree("build/x.py", "x.py", ".venv/x.py")
    assert find("build/x.py", "x.py") == ["build/x.py", "x.py"]
    assert find("build/x.py", "x.py", ".venv/x.py", force_exclude=True) == ["x.py"]


def test_gitignore(find: Find) -> None:
    tree("out/a.py", "keep/out/b.py", "keep/c.py", "keep/d.gen.py", "keep/deep/d.gen.py", "keep/deep/out/x.py", "e.py")
    Path(".gitignore").write_text("/out\n*.gen.py\n")
    Path("keep/deep/.gitignore").write_text("!d.gen.py\nout/\n")
    assert find() == ["e.py", "keep/c.py", "keep/deep/d.gen.py", "keep/out/b.py"]
    assert find("out") == ["out/a.py"]
    assert find("out/a.py") == ["out/a.py"]
    assert len(find(settings="respect-gitignore = false")) == 7


def test_gitignore_of_the_repository_above(find: Find) -> None:
    tree("pkg/a.py", "pkg/b.py", "pkg/c.py", ".git/info/exclude")
    Path(".gitignore").write_text("pkg/a.py\n")
    Path(".git/info/exclude").write_text("b.py\n")
    assert find("pkg") == ["pkg/c.py"]


def test_links(find: Find) -> None:
    tree("pkg/a.py")
    Path("pkg/loop").symlink_to(Path.cwd())
    Path("pkg/same.py").symlink_to(Path("pkg/a.py").absolute())
    Path("pkg/dangling.py").symlink_to("nothing.py")
    Path("alias").symlink_to("pkg")
    assert find() == ["pkg/a.py"]
    assert find("alias") == ["alias/a.py"]
    assert find("alias", "pkg") == ["pkg/a.py"]


def test_a_directory_that_cannot_be_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree("shut/a.py", "b.py")
    configuration = Configuration(Overrides(isolated=True), ("DYN901",), place)
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if Path(path).name == "shut":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = discover([place], configuration.for_directory)
    assert found.files == (place / "b.py",)
    assert found.failures == ("shut: cannot read the directory: Permission denied.",)
