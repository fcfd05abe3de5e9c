"""The setting `roots`: what it names, what is wrong with it, and what `dynalint config suggest` proposes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Run = Callable[..., Any]

MODELS = """\
import torch
from torch import nn

from pkg.helpers import clipped


class Part(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return clipped(x)


class Base(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class Net(Base):
    def __init__(self) -> None:
        super().__init__()
        self.part = Part()

    def body(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(x)


class Other(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        return -x


class Driver(nn.Module):
    def forward(self, model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return model(x)


class Trained(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


@torch.compile
def step(x: torch.Tensor) -> torch.Tensor:
    return x + 1
"""
HELPERS = """\
def clipped(x):
    if x.sum() > 0:
        return x
    return -x
"""
TRAIN = "from pkg.models import Trained\n\n\ndef main():\n    return Trained()\n"


@pytest.fixture
def project(place: Path) -> Path:
    package = place / "src" / "pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from pkg.models import Net\n")
    (package / "models.py").write_text(MODELS)
    (package / "helpers.py").write_text(HELPERS)
    (place / "train.py").write_text(TRAIN)
    (place / "pyproject.toml").write_text("[tool.dynalint]\n")
    return place


def named(project: Path, *names: str) -> None:
    listed = ", ".join(f'"{name}"' for name in names)
    (project / "pyproject.toml").write_text(f"[tool.dynalint]\nroots = [{listed}]\n")


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("pkg.models:Other", ["src/pkg/models.py:28 DYN101"]),
        ("src/pkg/models.py:Other", ["src/pkg/models.py:28 DYN101"]),
        ("pkg.models:Net", ["src/pkg/helpers.py:2 DYN101"]),
        ("pkg:Net", ["src/pkg/helpers.py:2 DYN101"]),
        ("pkg.models:Part", ["src/pkg/helpers.py:2 DYN101"]),
    ],
)
def test_only_what_a_named_root_reaches_is_checked(check: Run, project: Path, name: str, places: list[str]) -> None:
    named(project, name)
    assert check().places == places


def test_a_root_is_found_from_a_file_that_is_named_alone(check: Run, project: Path) -> None:
    named(project, "pkg.models:Net")
    assert check("src/pkg/helpers.py").places == ["src/pkg/helpers.py:2 DYN101"]
    named(project, "pkg.models:Other")
    assert check("src/pkg/helpers.py").places == []


def test_a_name_that_nothing_has_is_an_error_in_one_sentence(check: Run, project: Path) -> None:
    named(project, "pkg.models:Othr", "pkg.models:Net", "pkg.nowhere:Net", "pkg.models:torch")
    ran = check()
    assert (ran.code, ran.places) == (2, ["src/pkg/helpers.py:2 DYN101"])
    start = "error: pyproject.toml:2: `roots`: there is no function or class named "
    assert ran.err.splitlines() == [
        f'{start}"pkg.models:Othr" (did you mean `pkg.models:Other`?)',
        f'{start}"pkg.nowhere:Net" (did you mean `pkg.models:Net`?)',
        f'{start}"pkg.models:torch" (did you mean `pkg.models:Other`?)',
    ]


def test_where_nothing_is_checked_no_name_is_missed(check: Run, place: Path) -> None:
    named(place, "pkg.models:Net")
    assert check().code == 0


def test_suggestions_are_toml_with_reasons(dynalint: Run, project: Path) -> None:
    ran = dynalint("config", "suggest")
    assert ran.code == 0
    assert ran.out == (
        "# Keep the names that you compile. Only these and the code that they call will be checked.\n"
        "[tool.dynalint]\n"
        "roots = [\n"
        '    "pkg.models:step",     # the project compiles it\n'
        '    "pkg.models:Trained",  # built in train.py:5\n'
        '    "pkg.models:Net",      # no model builds it\n'
        '    "pkg.models:Other",    # no model builds it\n'
        "]\n"
        "# Omitted: 1 submodules of other models, 1 base classes of other models, 1 rarely compiled.\n"
    )


def test_suggestions_are_roots(check: Run, dynalint: Run, project: Path) -> None:
    text = dynalint("config", "suggest").out
    assert "pkg.models:Net" in tomllib.loads(text)["tool"]["dynalint"]["roots"]
    (project / "pyproject.toml").write_text(text)
    ran = check()
    assert (ran.code, ran.err) == (1, "")
    assert ran.places == ["src/pkg/helpers.py:2 DYN101", "src/pkg/models.py:28 DYN101"]


def test_suggestions_for_a_file_of_settings_alone_have_no_table(dynalint: Run, project: Path) -> None:
    (project / "pyproject.toml").unlink()
    (project / "dynalint.toml").write_text("")
    assert "Other" in " ".join(tomllib.loads(dynalint("config", "suggest").out)["roots"])


def test_nothing_to_suggest(dynalint: Run, place: Path) -> None:
    (place / "plain.py").write_text("x = 1\n")
    assert dynalint("config", "suggest").out == "# No names were found for `roots`.\n"
