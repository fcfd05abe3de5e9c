"""Folders without `__init__.py` that code imports as packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalint.analysis import AnalysisOptions, analyze
from dynalint.analysis.disk import Disk
from dynalint.analysis.events import Branch
from dynalint.analysis.namespaces import namespace_roots

HELPER = "def run(x):\n    return x if x.sum() > 0 else -x\n"
MODEL = """
import torch
from torch import nn
{imported}

class Model(nn.Module):
    def forward(self, x: torch.Tensor):
        return {called}(x)
"""


def files(folder: Path, *marked: str, imported: str, called: str) -> list[Path]:
    """Write `src/tool/core/ops.py` and a model that uses it, with an `__init__.py` in the marked folders."""
    texts = {"src/tool/core/ops.py": HELPER, "src/tool/nets/model.py": MODEL.format(imported=imported, called=called)}
    texts |= {f"{one}/__init__.py": "" for one in marked}
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return sorted(folder / name for name in texts)


@pytest.mark.parametrize("marked", [(), ("src/tool/core",), ("src/tool/core", "src/tool/nets"), ("src/tool/nets",)])
@pytest.mark.parametrize(
    ("imported", "called"),
    [
        ("from tool.core.ops import run", "run"),
        ("from tool.core import ops", "ops.run"),
        ("import tool.core.ops as o", "o.run"),
        ("from src.tool.core.ops import run", "run"),
    ],
)
def test_absolute_import_is_followed(tmp_path: Path, marked: tuple[str, ...], imported: str, called: str) -> None:
    paths = files(tmp_path, *marked, imported=imported, called=called)
    events = [event for event in analyze(paths, AnalysisOptions()).events if isinstance(event, Branch)]
    assert [(event.function.name, event.node.lineno) for event in events] == [("run", 2)]


def test_other_imports_add_no_folder(tmp_path: Path) -> None:
    files(tmp_path, imported="", called="")
    root = tmp_path / "src/tool/core"
    texts = [
        "import torch",
        "import core.missing",
        "from toolbox.core import ops",
        "# see core.ops",
        "from . import core",
    ]
    assert list(namespace_roots([root], texts, Disk())) == []
    assert list(namespace_roots([root], ["from core import ops", "import tool.core.ops"], Disk())) == [
        tmp_path / "src/tool",
        tmp_path / "src",
    ]
    assert list(namespace_roots([root, root.parent], ["from core import ops"], Disk())) == []
