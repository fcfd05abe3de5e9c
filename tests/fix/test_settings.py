"""`dynalint fix --settings`: where Dynamo settings are written, and what it says where that is nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalint.cli import run

SETTING = "torch._dynamo.config.capture_dynamic_output_shape_ops = True"
SELECTS = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0]
"""
COMPILES = """\
import torch

from layers import Model
{}
model = torch.compile(Model())
"""


@pytest.fixture
def layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "layers.py").write_text(SELECTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "layers.py"


def test_they_are_written_where_the_project_compiles(layers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main = layers.with_name("main.py")
    main.write_text(COMPILES.format(""))
    assert run(["fix", "--static", "--apply", "--settings"]) == 0
    assert main.read_text() == COMPILES.format(f"\n{SETTING}\n")
    assert layers.read_text() == SELECTS
    assert capsys.readouterr().err == "note: fixed 1 finding in 1 file.\n"
    assert run(["fix", "--static", "--settings"]) == 0
    assert capsys.readouterr().err == "note: there is no Dynamo setting to turn on.\n"


def test_a_project_that_compiles_nothing(layers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fix", "--static", "--settings"]) == 0
    assert capsys.readouterr().err == (
        "note: there is no Dynamo setting to turn on.\n"
        f"note: no file calls `torch.compile`: write `{SETTING}` before you call it.\n"
    )
    assert layers.read_text() == SELECTS
    assert run(["fix", "--settings", "--interactive"]) == 2


def test_torch_by_another_name(layers: Path) -> None:
    main = layers.with_name("main.py")
    main.write_text(COMPILES.format("").replace("import torch", "import torch as th").replace("torch.c", "th.c"))
    assert run(["fix", "--static", "--apply", "--settings"]) == 0
    assert main.read_text().startswith(
        f"import torch as th\n\nfrom layers import Model\n\n{SETTING.replace('torch', 'th')}\n"
    )


def test_where_torch_is_only_imported_under_a_condition(layers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = COMPILES.format("").replace("import torch", "try:\n    import torch\nexcept ImportError:\n    torch = None")
    layers.with_name("main.py").write_text(text)
    assert run(["fix", "--static", "--settings"]) == 0
    assert (
        "the files that call `torch.compile` do not import torch at their top level: write" in capsys.readouterr().err
    )
