"""Measure the share of the analysis budget that files use: `python benchmarks/steps.py FOLDER...`.

The budgets in `dynalint/analysis/steps.py` must stay far above what the largest handwritten files need.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from dynalint.analysis.steps import MOST_REWRITE_STEPS, MOST_STEPS
from dynalint.config import Configuration, Overrides, parse_layer
from dynalint.linting.lint import Linter
from dynalint.projects.workspace import open_workspace
from dynalint.rulebook.catalogue import known_codes
from dynalint.rules import all_rules

SHOWN = 12


def main(names: list[str]) -> None:
    """Lint each folder as a project and print the files that need the most steps."""
    for name in names:
        folder = Path(name).absolute()
        layer = parse_layer({"confirm": "never", "exclude": []}, folder, lambda _: "benchmark")
        configuration = Configuration(Overrides((layer,), isolated=True), known_codes(), folder)
        workspace, _ = open_workspace([folder], configuration, folder)
        start = time.perf_counter()
        result = Linter(workspace, all_rules()).lint()
        result.offers.made(result.linted)
        print(f"{folder}: {len(result.analysis.files)} files, {time.perf_counter() - start:.1f} s")
        for title, budgets, most in (
            ("analysis", result.analysis.budgets, MOST_STEPS),
            ("rewrites", result.offers.budgets, MOST_REWRITE_STEPS),
        ):
            taken = sorted(((budgets.of(file).spent, file) for file in result.analysis.files), key=lambda one: -one[0])
            print(f"  {title}, of {most:,}:")
            for spent, file in taken[:SHOWN]:
                lines = len(file.line_starts)
                print(f"    {spent:>12,}  {most / max(spent, 1):>8,.0f} times less  {lines:>6} lines  {file.path.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
