"""Measure how much fixing with views of the affected files costs compared with linting the whole project each time.

    python benchmarks/fix_cost.py FOLDER [--unsafe] [--views-only]

Both ways fix the same files in memory and in this process without running code, assuming that all conditions hold. The
output is the processor time of each way, and of the first check, which both need. The exit code is 1 if the results
differ. With --views-only, the slower way, which can take hours, is left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dynalint import engine
from dynalint.config import Configuration, Overrides, parse_layer
from dynalint.fix import FixOptions, FixResult, Unit, Verification, fix_findings
from dynalint.projects.workspace import open_workspace
from dynalint.rulebook.catalogue import known_codes


def granted(
    _before: Mapping[Path, str], _after: Mapping[Path, str], units: Sequence[Unit]
) -> Mapping[Unit, Verification]:
    """Treat every fix as proven."""
    return {unit: Verification("proven", "taken for granted") for unit in units}


def timed(name: str, work: Callable[[], FixResult]) -> tuple[FixResult, float]:
    """Call a function, print its processor time and result, and return both."""
    start = time.process_time()
    result = work()
    seconds = time.process_time() - start
    print(f"{name}: {seconds:.1f} s, {len(result.fixed)} fixed in {len(result.files)} files", flush=True)
    return result, seconds


def main() -> int:
    """Fix a folder in both ways."""
    parser = argparse.ArgumentParser(description="Time fixing by views of a project against fixing by the whole.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--unsafe", action="store_true")
    parser.add_argument("--views-only", action="store_true")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    layer = parse_layer({"confirm": "never", "unsafe-fixes": arguments.unsafe}, folder, lambda _: "the benchmark")
    configuration = Configuration(Overrides((layer,), isolated=True), known_codes(), folder)
    workspace, _ = open_workspace([folder], configuration, folder)
    start = time.process_time()
    checked = engine.check(workspace).offered()
    print(f"check: {time.process_time() - start:.1f} s, {len(checked.linted)} findings in {len(workspace.files)} files")
    options = FixOptions(unsafe=arguments.unsafe)
    views = engine.views_of(checked)
    by_views, less = timed("by views", lambda: fix_findings(checked.linted, checked.linter, options, granted, views))
    if arguments.views_only:
        return 0
    whole, more = timed("by the whole", lambda: fix_findings(checked.linted, checked.linter, options, granted))
    texts = [{file.source.path: file.text for file in result.files} for result in (by_views, whole)]
    different = sorted(path for path in {*texts[0], *texts[1]} if texts[0].get(path) != texts[1].get(path))
    print(f"ratio: {more / less:.1f}; files that differ: {', '.join(map(str, different)) or 'none'}")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
