"""A line of a base class is judged by the classes that inherit it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from .conftest import Dynalint

pytestmark = [pytest.mark.dynamo, pytest.mark.may_skip]

BASE = """
import torch
from torch import nn


class Base(nn.Module):
    def forward(self, x):
        h = self.encode(x)
        if h.sum() > 0:
            h = h + 1
        return h

    def encode(self, x):
        raise NotImplementedError
"""
DERIVED = """
import torch
from torch import nn
from pkg.base import Base


class Other(Base):
    def forward(self, x):
        return x


class Derived(Base):
    def __init__(self, key{default}):
        super().__init__()
        if key != "sesame":
            raise PermissionError("wrong key")
        self.linear = nn.Linear(8, 8)

    def encode(self, x):
        return self.linear(x)
"""
TEST = """
import torch
from pkg.model import Derived

def test_it():
    Derived("sesame")(torch.ones(2, 8))
"""


def _project(folder: Path, files: dict[str, str]) -> None:
    for name, text in {"pkg/__init__.py": "", "pkg/base.py": BASE, **files}.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))


def _evidence(confirming: Dynalint, *arguments: str) -> tuple[str, str]:
    ran = confirming("check", "--no-cache", "--output-format", "json", *arguments)
    (found,) = ran.findings
    assert found["function"] == "Base.forward"
    return found["evidence"]["status"], found["evidence"]["detail"]


@pytest.mark.parametrize("path", [".", "pkg/base.py"])
def test_a_class_is_built_for_a_line_of_its_base(tmp_path: Path, confirming: Dynalint, path: str) -> None:
    """The base cannot be called, and `Other` never comes to its line."""
    _project(tmp_path, {"pkg/model.py": DERIVED.format(default='="sesame"')})
    status, detail = _evidence(confirming, path)
    assert status == "confirmed", detail


def test_a_test_of_a_class_judges_a_line_of_its_base(tmp_path: Path, confirming: Dynalint) -> None:
    """Nobody could guess the key."""
    _project(tmp_path, {"pkg/model.py": DERIVED.format(default=""), "tests/test_model.py": TEST})
    status, detail = _evidence(confirming, ".", "--confirm-from", "tests")
    assert status == "confirmed", detail
