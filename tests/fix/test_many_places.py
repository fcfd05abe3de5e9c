"""Computing fixes does not walk the whole function again for each of its places."""

from __future__ import annotations

from pathlib import Path

from dynalint.catalogue import known_codes
from dynalint.config import Configuration, Overrides, parse_layer
from dynalint.lint import Linter
from dynalint.rules import all_rules
from dynalint.workspace import open_workspace


def steps(folder: Path, number: int) -> int:
    """Return the steps that it takes to compute the fixes of a method with this number of loops."""
    loops = "".join(
        f"        for y in ys:\n            if y.sum() > {count}:\n                x = x + y\n"
        for count in range(number)
    )
    head = "import torch\n\nclass M(torch.nn.Module):\n    def forward(self, x, ys):\n"
    (folder / "model.py").write_text(f"{head}{loops}        return x\n")
    layer = parse_layer({"confirm": "never"}, folder, lambda _: "test")
    configuration = Configuration(Overrides((layer,), isolated=True), known_codes(), folder)
    workspace, _ = open_workspace([folder], configuration, folder)
    result = Linter(workspace, all_rules()).lint()
    assert len(result.offers.made(result.linted)) == number
    return result.offers.budgets.of(result.analysis.files[0]).spent


def test_the_function_is_not_walked_for_each_loop(tmp_path: Path) -> None:
    assert steps(tmp_path, 80) < 250_000
