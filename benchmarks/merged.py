"""Measure how much of what merged commits fixed for `torch.compile` dynalint finds and can fix.

    python benchmarks/merged.py CAUSES.jsonl CLONES [--python VENV/bin/python] [--unsafe-fixes] [--only ID] [--diffs]

CLONES is a folder with a git clone of each repository in `owner+name` or `owner+name/repo`. Each record in CAUSES.jsonl
describes a place that a commit fixed, with the keys `id`, `repo` ("owner/name"), `parent` (the previous commit),
`file`, `ranges` (first and last lines of the cause), `scope` (`local` if only one function was changed) and `on_2_13`
(only `breaks` and `recompiles` are used).

A place is flagged if a static check of the whole package has a finding there that is more than advice. A flagged place
is repaired if `dynalint fix --apply`, with the given options, changes it, and a check that runs the code finds nothing
there afterwards. The interpreter needs torch and the packages' dependencies. Without an interpreter, fixes that have to
be verified by running the code are not applied.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

COUNTED = ("breaks", "recompiles")


@dataclass(frozen=True)
class Cause:
    """A place that a commit fixed, and the tree before the commit."""

    id: str
    repo: str
    parent: str
    file: str
    ranges: tuple[tuple[int, int], ...]
    local: bool


@dataclass(frozen=True)
class Result:
    """The outcome for a cause: the codes found there, whether it was repaired, and what remained or was reported."""

    cause: Cause
    codes: tuple[str, ...]
    repaired: bool
    left: str


def read_causes(path: Path, only: Sequence[str]) -> list[Cause]:
    """Return the causes that still break or recompile."""
    records = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [
        Cause(
            one["id"],
            one["repo"],
            one["parent"],
            one["file"],
            tuple((first, last) for first, last in one["ranges"]),
            one["scope"] == "local",
        )
        for one in records
        if one["on_2_13"] in COUNTED and (not only or one["id"] in only)
    ]


def extract(cause: Cause, clones: Path, folder: Path) -> None:
    """Write the Python files from before the commit to a folder, as a new repository."""
    clone = clones / cause.repo.replace("/", "+")
    clone = clone / "repo" if (clone / "repo").exists() else clone
    listed = subprocess.run(
        ["git", "-C", clone, "ls-tree", "-r", "--name-only", cause.parent], capture_output=True, text=True, check=True
    )
    wanted = [name for name in listed.stdout.splitlines() if name.endswith((".py", ".toml", ".cfg", ".md", ".rst"))]
    for start in range(0, len(wanted), 500):
        archive = subprocess.Popen(
            ["git", "-C", clone, "archive", cause.parent, *wanted[start : start + 500]], stdout=subprocess.PIPE
        )
        subprocess.run(["tar", "x", "-C", folder], stdin=archive.stdout, check=True)
        archive.wait()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)


def dynalint(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run dynalint in a folder."""
    command = [sys.executable, "-m", "dynalint", *arguments, "--no-cache", "--isolated", "--all", "-q"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def findings_in(folder: Path, paths: Sequence[str], *options: str) -> list[dict[str, object]]:
    """Return a check's findings that still count, as in the JSON output."""
    ran = dynalint(folder, "check", *paths, "--output-format", "json-lines", *options)
    return [json.loads(line) for line in ran.stdout.splitlines()]


def there(
    findings: Iterable[dict[str, object]], file: str, ranges: Sequence[tuple[int, int]]
) -> list[dict[str, object]]:
    """Return the findings in a file that overlap at least one of the ranges."""
    own = (one for one in findings if one["path"] == file and one["category"] != "advice")
    return [one for one in own if any(_overlaps(one, first, last) for first, last in ranges)]


def _overlaps(finding: dict[str, object], first: int, last: int) -> bool:
    line, end = finding["line"], finding["end_line"]
    return isinstance(line, int) and isinstance(end, int) and line <= last and end >= first


def moved(
    before: Sequence[str], after: Sequence[str], ranges: Sequence[tuple[int, int]]
) -> tuple[list[tuple[int, int]], bool]:
    """Return where line ranges are after a change, and whether the change touches them."""
    found, touched = [], False
    opcodes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for first, last in ranges:
        new = [
            (j1 + max(first - 1 - i1, 0) if tag == "equal" else j1, j1 + min(last, i2) - i1 if tag == "equal" else j2)
            for tag, i1, i2, j1, j2 in opcodes
            if i1 < last and i2 >= first
        ]
        touched |= any(tag != "equal" and i1 < last and i2 >= first for tag, i1, i2, _, _ in opcodes)
        found.append((min(start for start, _ in new) + 1, max(end for _, end in new)))
    return found, touched


def judged(causes: Sequence[Cause], clones: Path, options: Sequence[str], *, diffs: bool) -> Iterator[Result]:
    """Yield the outcome for each cause in a commit."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        extract(causes[0], clones, folder)
        packages = sorted({cause.file.split("/")[0] for cause in causes})
        found = findings_in(folder, packages, "--static")
        for file in dict.fromkeys(cause.file for cause in causes):
            path = folder / file
            before = path.read_text(encoding="utf-8")
            dynalint(folder, "fix", "--apply", file, *options)
            after = path.read_text(encoding="utf-8")
            if diffs:
                print("".join(difflib.unified_diff(before.splitlines(True), after.splitlines(True), file, file, n=2)))
            left = findings_in(folder, [file], *(one for one in options if one != "--unsafe-fixes"))
            for cause in (one for one in causes if one.file == file):
                ranges, touched = moved(before.splitlines(), after.splitlines(), cause.ranges)
                still = there(left, file, ranges)
                codes = tuple(sorted({str(one["code"]) for one in there(found, file, cause.ranges)}))
                yield Result(
                    cause,
                    codes,
                    bool(codes) and touched and not still,
                    ", ".join(f"{one['code']} {one['line']}" for one in still),
                )
            path.write_text(before, encoding="utf-8")


def main() -> int:
    """Print a line for each cause, and the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causes", type=Path)
    parser.add_argument("clones", type=Path)
    parser.add_argument("--python", help="the interpreter that runs code")
    parser.add_argument("--unsafe-fixes", action="store_true")
    parser.add_argument("--only", action="append", default=[], metavar="ID")
    parser.add_argument("--diffs", action="store_true", help="print what was changed")
    given = parser.parse_args()
    options = ["--unsafe-fixes"] if given.unsafe_fixes else []
    options += ["--python", os.path.abspath(given.python)] if given.python else []  # noqa: PTH100 - it may be a link
    commits: dict[tuple[str, str], list[Cause]] = {}
    for cause in read_causes(given.causes, given.only):
        commits.setdefault((cause.repo, cause.parent), []).append(cause)
    results = []
    for causes in commits.values():
        try:
            for result in judged(causes, given.clones, options, diffs=given.diffs):
                results.append(result)
                state = "repaired" if result.repaired else f"left: {result.left}" if result.left else "not changed"
                print(
                    result.cause.id,
                    result.cause.file,
                    " ".join(result.codes) or "not flagged",
                    state,
                    sep="\t",
                    flush=True,
                )
        except (subprocess.CalledProcessError, OSError) as fault:
            print(*(cause.id for cause in causes), f"not measured: {fault}", sep="\t")
    local = [one for one in results if one.cause.local]
    print(f"{len(results)} causes: {sum(bool(one.codes) for one in results)} flagged")
    print(f"{len(local)} of them local: {sum(one.repaired for one in local)} repaired")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
