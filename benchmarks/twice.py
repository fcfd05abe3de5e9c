"""Check that fixing is idempotent: a second run must not change anything, and the first must not leave new findings.

    python benchmarks/twice.py CORPUS [--pattern GLOB] [--together] [--unsafe-fixes] [--static] [--jobs N]

Each file in CORPUS is copied, fixed alone, and fixed again. With `--together`, all files are fixed as one project. The
conditions of conditional fixes are assumed to hold, to change as much as possible. `--static` only applies fixes
without conditions. Nothing is written to the corpus. The exit code is 1 if anything is found.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fixes import fix


@dataclass(frozen=True)
class Twice:
    """The result of fixing files twice: the number of changed files, and unexpected changes and findings."""

    changed: int
    again: tuple[str, ...]
    new: tuple[str, ...]
    failed: tuple[str, ...] = ()


def fix_twice(corpus: Path, options: argparse.Namespace, names: Sequence[str]) -> Twice:
    """Fix copies of files twice, as one project."""
    with tempfile.TemporaryDirectory() as folder:
        copies = Path(folder).resolve()
        for name in names:
            (copies / name).parent.mkdir(parents=True, exist_ok=True)
            (copies / name).write_bytes((corpus / name).read_bytes())
        before, first = fix(copies, names, options)
        for file in first.files:
            file.source.path.write_bytes(file.data)
        after, second = fix(copies, names, options) if first.files else (before, first)
    counts = Counter((one.path, one.code) for one in after) - Counter((one.path, one.code) for one in before)
    again = tuple(file.source.path.relative_to(copies).as_posix() for file in second.files) if first.files else ()
    return Twice(len(first.files), again, tuple(f"{path}: {code}" for path, code in counts))


def _one(corpus: Path, options: argparse.Namespace, names: Sequence[str]) -> Twice:
    try:
        return fix_twice(corpus, options, names)
    except Exception as fault:  # noqa: BLE001 - one file must not end the measurement of the others
        return Twice(0, (), (), (f"{names[0]}: {fault!r}",))


def main() -> None:
    """Print the number of changed files, and each file that changed again or has a new finding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--pattern", default="*.py", help="the files to fix (default: %(default)s)")
    parser.add_argument("--together", action="store_true", help="fix all files as one project")
    parser.add_argument("--unsafe-fixes", action="store_true", help="take unsafe fixes too")
    parser.add_argument("--static", action="store_true", help="take no fix that has conditions")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes to use (default: %(default)s)")
    options = parser.parse_args()
    corpus = options.corpus.resolve()
    names = sorted(path.relative_to(corpus).as_posix() for path in corpus.rglob(options.pattern))
    groups = [names] if options.together else [[name] for name in names]
    taken = argparse.Namespace(
        static=options.static,
        assume=not options.static,
        unsafe_fixes=options.unsafe_fixes,
        separately=False,
        examples=None,
    )
    with ProcessPoolExecutor(options.jobs) as pool:
        results = list(pool.map(partial(_one, corpus, taken), groups))
    seen = [
        *(f"changed again: {name}" for result in results for name in result.again),
        *(f"new finding: {line}" for result in results for line in result.new),
        *(f"failed: {line}" for result in results for line in result.failed),
    ]
    changed = sum(result.changed for result in results)
    print(f"{changed} of {len(names)} files were changed; {sum(len(one.again) for one in results)} of them again")
    print(*seen, sep="\n")
    sys.exit(bool(seen))


if __name__ == "__main__":
    main()
