"""A project to write, and findings by what they point at."""

from __future__ import annotations

import sys
import tempfile
import textwrap
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from dynalint.confirm import ConfirmOptions, Target, examine
from dynalint.confirm.worker.sandbox import syscalls, walls
from dynalint.findings import Category, Finding


@lru_cache(maxsize=1)
def walls_stand() -> bool:
    """Whether this machine has what a sandbox is made of."""
    if sys.platform != "linux":
        return False
    try:
        return syscalls.landlock_version() >= 3
    except OSError:
        with tempfile.TemporaryDirectory() as folder:
            return bool(walls.usable_namespaces(Path(folder)))


@pytest.fixture(scope="module")
def sandboxed() -> None:
    """Skip where no sandbox holds; such tests are marked `may_skip`."""
    if not walls_stand():
        pytest.skip("no sandbox holds on this machine")


def confirm(*arguments: Any, **options: Any) -> list[Finding]:
    """The findings that `examine` returns."""
    return examine(*arguments, **options)[0]


class Project:
    """A folder with modules, and the findings and targets in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    def target(self, name: str, qualname: str) -> Target:
        module = name.removesuffix(".py").replace("/", ".")
        return Target(self.folder / name, module, qualname)

    def finding(
        self,
        name: str,
        needle: str,
        function: str,
        *,
        category: Category = "graph-break",
        gb: Sequence[str] = (),
        region: Sequence[str] = (),
        nth: int = 0,
    ) -> Finding:
        """Return a finding whose range is the `nth` place in the file where `needle` stands."""
        lines = (self.folder / name).read_text(encoding="utf-8").splitlines()
        places = [(number, line.index(needle) + 1) for number, line in enumerate(lines, 1) if needle in line]
        line, column = places[nth]
        return Finding(
            path=name,
            line=line,
            column=column,
            end_line=line,
            end_column=column + len(needle),
            code="DYN101" if category == "graph-break" else "DYN501",
            name="test",
            category=category,
            severity="error",
            message=f"about {needle}",
            function=function,
            region=tuple(region) or (function,),
            gb=tuple(gb),
        )

    def options(self, **changes: object) -> ConfirmOptions:
        mode = "auto" if walls_stand() else "always"
        settings = {"mode": mode, "project": self.folder, "directory": self.folder, "timeout": 60.0}
        return ConfirmOptions(**{**settings, "search": (self.folder,), **changes})  # type: ignore[arg-type]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture(scope="module")
def shared_project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project for tests that look at one run from several sides."""
    return Project(tmp_path_factory.mktemp("project"))
