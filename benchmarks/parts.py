"""Compare the findings when each folder of a package is checked alone with the findings in the whole package.

    python benchmarks/parts.py PACKAGE [--files N]

Checking more files can add findings but must not remove any, because it only adds information. This prints the findings
that are missing for the whole package. The exit code is 1 if there are any. `--files` also checks the given number of
single files, drawn at random. Advice, and findings that only `--all` lists, count as found.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Iterable
from pathlib import Path

import dynalint

Key = tuple[str, int, str]


def found(paths: Iterable[str], *, advice: bool) -> set[Key]:
    """Return each finding's location and code."""
    findings = dynalint.check(list(paths), static=True)
    return {(one.path, one.line, one.code) for one in findings if advice or one.category != "advice"}


def main() -> int:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path)
    parser.add_argument("--files", type=int, default=0)
    options = parser.parse_args()
    os.chdir(options.package)
    files = sorted(str(path) for path in Path().rglob("*.py"))
    folders = sorted({str(Path(file).parent) for file in files})
    drawn = random.Random(1).sample(files, min(options.files, len(files)))  # noqa: S311 - any will do
    whole = found(["."], advice=True)
    alone: set[Key] = set()
    for part in [*folders, *drawn]:
        here = found([part], advice=False)
        alone |= here
        for path, line, code in sorted(here - whole):
            print(f"{path}:{line}: {code} is found in {part} alone")
    lost = alone - whole
    print(f"{len(whole)} findings in the whole, advice included")
    print(f"{len(alone)} in {len(folders)} folders and {len(drawn)} files by themselves")
    print(f"{len(lost)} of these are lost")
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
