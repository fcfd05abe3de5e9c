"""A small project, and the command line in processes of their own, which know nothing of each other's."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import forking

FILES = {
    "pyproject.toml": '[project]\nname = "package"\n\n[tool.dynalint]\ntorch = "2.13"\n',
    ".gitignore": "ignored.py\n",
    "package/__init__.py": "from .model import *\nfrom package import ops as operations\n",
    "package/model.py": """
        import torch
        from torch import nn

        from package.layers import Gate
        from .ops import scale, threshold

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.gate = Gate(4)
                self.steps = 0

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.steps += 1
                if threshold(x) > 0:
                    print(x)
                return self.gate(scale(x, x.max().item()))
    """,
    "package/layers.py": """
        from torch import nn
        from package.ops import threshold

        class Gate(nn.Module):
            def __init__(self, size):
                super().__init__()
                self.linear = nn.Linear(size, size)

            def forward(self, x):
                for row in x:
                    if threshold(row):  # dynalint: ignore[DYN101] -- tried
                        return row.tolist()
                return self.linear(x)

        class Spare(nn.Module):
            def forward(self, x):
                return x.tolist()
    """,
    "package/ops.py": """
        def scale(x, by):
            return x * int(by)

        def threshold(x):
            if pow(x, 2).max() > 0:
                print(x)
            return x.mean()
    """,
    "train.py": """
        import torch
        from package import Model

        model = torch.compile(Model())

        @torch.compile
        def step(x):
            y = model(x)
            if y.isnan().any():
                raise ValueError(y)
            return y
    """,
    "tests/test_model.py": """
        import torch
        from package.model import Model

        @torch.compile
        def step(x):
            return x.item()

        def test_model():
            assert torch.compile(Model())(torch.ones(4)).shape == (4,)
    """,
}
CELLS = ["import torch\nfrom package import Model", "@torch.compile\ndef shown(x):\n    print(x)\n    return x.item()"]


@dataclass(frozen=True)
class Said:
    """What a run wrote, and its exit code."""

    code: int
    out: str
    err: str


Check = Callable[..., Said]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with two packages' worth of imports, a script, a test and a notebook."""
    folder = tmp_path / "project"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(textwrap.dedent(text).lstrip())
    cells = [{"cell_type": "code", "source": text, "metadata": {}, "outputs": []} for text in CELLS]
    (folder / "notes.ipynb").write_text(
        json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    )
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "caches")}


@pytest.fixture
def check(project: Path, environment: Mapping[str, str]) -> Check:
    """Run `dynalint check --static ARGUMENTS...` in the project."""

    def call(*arguments: str, **variables: str) -> Said:
        ran = forking.dynalint(["check", "--static", *arguments], project, {**environment, **variables})
        assert "Traceback" not in ran.stderr
        return Said(ran.returncode, ran.stdout, ran.stderr)

    return call


@pytest.fixture
def findings(tmp_path: Path) -> Callable[[], list[Path]]:
    """The records in the cache of the project."""
    return lambda: sorted((tmp_path / "caches").glob("dynalint/*/findings/*.json"))
