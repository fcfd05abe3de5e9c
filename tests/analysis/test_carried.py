"""Loops are followed once where no iteration reads what another left."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from dynalint.analysis import analyze
from dynalint.analysis.carried import carried


@pytest.mark.parametrize(
    ("loop", "names"),
    [
        ("for i in n:\n    x = f(i)\n    y = x + a", {"f", "a"}),
        ("for i in n:\n    x = f(x)", {"f", "x"}),
        ("for i in n:\n    x += i", {"x"}),
        ("for i in n:\n    if i:\n        x = 1\n    y = x", {"x"}),
        ("for i, (j, *k) in n:\n    x[i] = j, k", {"x"}),
        ("for i.a[b] in n:\n    pass", {"i", "b"}),
        ("for i in n:\n    for j in i:\n        x = j\n    y = j", {"j"}),
        ("for i in n:\n    with a as b:\n        x = i\n    y = x", {"a"}),
        ("for i in n:\n    try:\n        x = i\n    except E as e:\n        y = x", {"E", "x"}),
        ("while x < y:\n    z = 1\n    y = z", {"x", "y"}),
        ("for i in n:\n    x = [j for j in i]", {"j"}),
        ("for i in n:\n    x = lambda: i", None),
        ("for i in n:\n    del i", None),
        ("for i in n:\n    if i:\n        global x", None),
    ],
)
def test_names_that_an_iteration_reads_from_the_one_before(loop: str, names: set[str] | None) -> None:
    node = ast.parse(loop).body[0]
    assert isinstance(node, (ast.For, ast.While))
    assert carried(getattr(node, "target", None), getattr(node, "test", None), node.body) == names


def steps_of(folder: Path, depth: int) -> int:
    loops = [f"{'    ' * (2 + level)}for x{level + 1} in x{level}:\n" for level in range(depth)]
    text = f"import torch\nclass M(torch.nn.Module):\n    def forward(self, x0):\n{''.join(loops)}"
    file = folder / "model.py"
    file.write_text(text + f"{'    ' * (2 + depth)}y = x{depth} + 1\n{'    ' * (2 + depth)}z = y.sum()\n")
    found = analyze([file])
    return found.budgets.of(found.files[0]).spent


def test_nested_loops_are_not_followed_again_for_each_level(tmp_path: Path) -> None:
    assert steps_of(tmp_path, 12) < 2 * steps_of(tmp_path, 6)


def test_a_loop_is_followed_again_where_it_reads_what_it_left(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(
        "import torch\n"
        "class M(torch.nn.Module):\n"
        "    def forward(self, x: torch.Tensor, n: int):\n"
        "        state = None\n"
        "        for i in range(n):\n"
        "            if state is not None and state > 0:\n"
        "                pass\n"
        "            state = x.sum()\n"
        "        return state\n"
    )
    assert "Branch" in [type(event).__name__ for event in analyze([file]).events]
