from __future__ import annotations

from pathlib import Path

from dynalint.analysis import analyze
from dynalint.analysis.events import CompilerUse

PACKAGE = """
import torch
from .gathered import *

for name in ("first", "second"):
    print(name, __file__)
steps = [one for one in range(3)]
torch.compile
"""


def test_what_a_module_binds_by_itself_is_not_looked_for_in_star_imports(tmp_path: Path) -> None:
    gathered = tmp_path / "p" / "gathered.py"
    package = tmp_path / "p" / "__init__.py"
    package.parent.mkdir()
    package.write_text(PACKAGE)
    gathered.write_text("def second():\n    for name in [one for one in __file__]:\n        one += name\n")
    analysis = analyze([package])
    assert [event.name for event in analysis.events if isinstance(event, CompilerUse)] == ["torch.compile"]
    assert gathered not in analysis.project.modules


def test_what_a_star_import_gives_out_is_found(tmp_path: Path) -> None:
    package = tmp_path / "p" / "__init__.py"
    package.parent.mkdir()
    package.write_text("import torch\nfrom .gathered import *\n\nspeed_up(torch.compile)\nspeed_up.x\n")
    (tmp_path / "p" / "gathered.py").write_text("from torch import compile as speed_up\n")
    found = [event.name for event in analyze([package]).events if isinstance(event, CompilerUse)]
    assert found == ["torch.compile", "torch.compile", "torch.compile.x"]


def test_a_layer_that_a_loop_binds_is_compiled(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\nfrom torch import nn\n\n\nclass Layer(nn.Module):\n    def forward(self, x):\n        return x\n\n\n"
        "layers = [Layer(), Layer()]\nfor layer in layers:\n    layer.compile()\n"
    )
    found = [event.name for event in analyze([script]).events if isinstance(event, CompilerUse)]
    assert found == ["torch.nn.Module.compile"]
