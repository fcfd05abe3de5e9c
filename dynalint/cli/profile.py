"""Print where the processor time of a run went, for `--profile`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dynalint.cli.console import write
from dynalint.config import show_path
from dynalint.profiling import Profile, measuring
from dynalint.report.style import visible

# How many of the most expensive files and rules are listed.
_MOST = 10
# What each stage counts.
_COUNTED = {
    "finding files": "file",
    "finding related files": "file",
    "parsing": "file",
    "indexing": "module",
    "interpretation": "function",
    "rules": "finding",
    "fixes": "finding",
    "following up fixes": "finding",
}


@contextmanager
def profiled(options: Mapping[str, Any]) -> Iterator[None]:
    """Measure what happens in the `with` block if `--profile` was given, and print the result to standard error."""
    if not options["profile"]:
        yield
        return
    with measuring() as profile:
        try:
            yield
        finally:
            profile.charge()
            write("".join(f"{line}\n" for line in _lines(profile)), sys.stderr)


def _lines(profile: Profile) -> Iterator[str]:
    times = os.times()
    others = times.children_user + times.children_system
    yield f"processor time: {sum(profile.stages.values()):.2f} s, and {others:.2f} s in other processes"
    yield from _table("stage", {_counted(stage, profile): spent for stage, spent in profile.stages.items()})
    yield from _table(
        "file", {visible(show_path(file, Path.cwd())): spent for file, spent in profile.files.items()}, _MOST
    )
    yield from _table("rule", profile.rules, _MOST)


def _counted(stage: str, profile: Profile) -> str:
    number, unit = profile.counts[stage], _COUNTED.get(stage)
    return stage if unit is None else f"{stage} ({number:,} {unit}{'s' if number != 1 else ''})"


def _table(title: str, rows: Mapping[str, float], most: int | None = None) -> Iterator[str]:
    dearest = sorted(rows, key=lambda name: -rows[name])[:most]
    lines = [f"{rows[name]:7.2f}  {name}" for name in dearest]
    yield from ["", f"seconds  {title}", *lines] if lines else ()
