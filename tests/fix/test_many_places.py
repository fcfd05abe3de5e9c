"""What a file costs grows with its size: no place to fix costs more because there are others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from dynalint.config import Configuration, Overrides, parse_layer
from dynalint.linting.lint import Linter
from dynalint.projects.workspace import open_workspace
from dynalint.rulebook.catalogue import known_codes
from dynalint.rules import all_rules

HEAD = "import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n    def forward(self, x: torch.Tensor, y: torch.Tensor):\n"
CLASS = """
class Model{}(nn.Module):
    def forward(self, x: torch.Tensor):
        y = x
        if x.sum() > 0:
            y = x + 1
        print(x.item())
        for i in range(int(x.sum())):
            y = y + i
        assert y.sum() < 3
        return y
"""


def forward(*statements: str) -> str:
    """Return a module whose `forward` has these statements."""
    lines = "\n".join(statements).split("\n")
    return HEAD + "".join(f"        {line}\n" for line in lines) + "        return x\n"


SHAPES: dict[str, tuple[int, Callable[[int], str]]] = {
    "classes": (6, lambda n: "import torch\nfrom torch import nn\n" + "".join(map(CLASS.format, range(n)))),
    "ifs": (25, lambda n: forward(*(f"if x.sum() > {one}:\n    x = x + {one}" for one in range(n)))),
    "elifs": (10, lambda n: forward("if x.sum() > 0:\n    y = x", *(f"elif x.sum() > {one}:\n    y = x + {one}" for one in range(n)))),
    "loops": (12, lambda n: forward(*(f"for z in y:\n    if z.sum() > {one}:\n        x = x + z" for one in range(n)))),
    "operands of and": (15, lambda n: forward("if " + " and ".join(f"(x > {one}).any()" for one in range(n)) + ":\n    x = x + 1")),
    "terms": (150, lambda n: forward("if " + " + ".join(["x"] * n) + ":\n    x = x + 1")),
    "items": (25, lambda n: forward(*["y = y + x.item()"] * n)),
    "prints": (20, lambda n: forward(*["print(x)"] * n)),
}  # fmt: skip


def linter_of(folder: Path, text: str) -> Linter:
    """Return a linter for a folder with a single file."""
    (folder / "model.py").write_text(text)
    layer = parse_layer({"confirm": "never"}, folder, lambda _: "test")
    configuration = Configuration(Overrides((layer,), isolated=True), known_codes(), folder)
    workspace, _ = open_workspace([folder], configuration, folder)
    return Linter(workspace, all_rules())


def calls_for(folder: Path, text: str) -> int:
    """Return how many functions are called to find and fix everything in a file."""
    linter = linter_of(folder, text)
    calls = 0

    def count(_frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    threading.setprofile(count)  # for the threads with a deep stack
    try:
        result = linter.lint()
        made = result.offers.made(result.linted)
    finally:
        threading.setprofile(None)
    assert made
    assert not result.failures
    return calls


@pytest.mark.parametrize("name", SHAPES)
def test_four_times_the_size_costs_less_than_five_times_as_much(name: str, tmp_path: Path) -> None:
    size, text = SHAPES[name]
    calls_for(tmp_path, text(2))  # what is only computed once
    assert calls_for(tmp_path, text(4 * size)) < 5 * calls_for(tmp_path, text(size))


def test_an_expression_for_which_libcst_takes_too_long_is_left(tmp_path: Path) -> None:
    (one,) = linter_of(tmp_path, forward("if " + " + ".join(["x"] * 400) + ":\n    x = x + 1"))({})
    assert one.finding.fix is not None
    assert one.finding.fix.declined is not None
    assert "nested more than 300 levels deep" in one.finding.fix.declined
