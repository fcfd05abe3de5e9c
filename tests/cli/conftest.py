"""Running the command line in this process, with rules of the tests' own: what they find never changes under them."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dynalint import engine
from dynalint import rules as all_of_them
from dynalint.analysis.events import Branch, Call, Event
from dynalint.analysis.project import Project
from dynalint.cli import run
from dynalint.rulebook import catalogue
from dynalint.rulebook.pages import Page
from dynalint.rules import Declined, Replacement, Rewrite, Rule, Violation


class _Documented(Rule):
    """A rule without a page of its own."""

    @classmethod
    def page(cls) -> Page:
        return Page(inspect.getdoc(cls) or "")


class BranchRule(_Documented):
    """Flags branches on tensors; has no fix.

    More words about it.
    """

    code, name, summary = "DYN101", "branch-on-tensor", "A branch on a tensor"
    gb = ("GB0170",)
    events = (Branch,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        yield Violation(event.node, "Branch on a tensor", help="Use `torch.where`.")

    def fix(self, event: Event, violation: Violation, project: Project) -> Declined:
        return Declined("the branches do different things")


class PrintRule(_Documented):
    """Flags prints and takes them out."""

    code, name, summary, severity = "DYN401", "print-call", "A call of print", "warning"
    events = (Call,)
    calls = frozenset({"builtins.print"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        yield Violation(event.node, "A call of `print`")

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite:
        assert isinstance(event.statement, ast.stmt)
        file = event.function.file
        start, end = file.span(event.statement)
        content = "pass" if project.options["print-fix"] == "remove" else "if not flag: pass"
        return Rewrite("Remove the call", "safe", (Replacement(file, start, end, content),))


class OldRule(_Documented):
    """Holds for old releases only."""

    code, name, summary, category = "DYN402", "old-print", "A print, long ago", "advice"
    events = (Call,)
    calls = frozenset({"builtins.*"})
    torch = "<2.8"

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        yield Violation(event.node, "A call of `print`, on an old torch")


class CrashingRule(_Documented):
    """Fails on any time.sleep."""

    code, name, summary = "DYN499", "crashing", "A rule with a fault"
    events = (Call,)
    calls = frozenset({"time.sleep"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        raise ZeroDivisionError("on purpose")


RULES = (BranchRule(), PrintRule(), OldRule(), CrashingRule())

MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        print(x)
        return -x
"""


@pytest.fixture(autouse=True)
def rules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the rules above be all there are."""
    catalogue.catalogue.cache_clear()
    for module in (engine, all_of_them):
        monkeypatch.setattr(module, "all_rules", lambda: RULES)
    yield
    catalogue.catalogue.cache_clear()


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory and cache, and none of the variables that dynalint reads."""
    import os

    for name in os.environ:
        if name.startswith(("DYNALINT_", "GITHUB_")) or name in (
            "NO_COLOR",
            "FORCE_COLOR",
            "CLICOLOR",
            "CLICOLOR_FORCE",
        ):
            monkeypatch.delenv(name)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))  # which must not know other rules
    return folder


@pytest.fixture
def model(place: Path) -> Path:
    """model.py in the working directory: a branch on line 7, a print on line 9."""
    path = place / "model.py"
    path.write_text(MODEL)
    return path


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out, self.err
        return json.loads(self.out)

    @property
    def places(self) -> list[str]:
        return [f"{one['path']}:{one['line']} {one['code']}" for one in self.json]


@pytest.fixture
def dynalint(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run `dynalint ARGUMENTS...` in the working directory."""

    def call(*arguments: str) -> Ran:
        capsys.readouterr()
        code = run(arguments)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Ran(code, captured.out, captured.err)

    return call


@pytest.fixture
def check(dynalint: Callable[..., Ran]) -> Callable[..., Ran]:
    """Run `dynalint check --static --output-format json ARGUMENTS...`."""

    def call(*arguments: str) -> Ran:
        return dynalint("check", "--static", "--output-format", "json", *arguments)

    return call
