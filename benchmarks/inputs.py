"""Measure how often dynalint can run code without a declared example, and how accurate its verdicts then are.

    python benchmarks/inputs.py CORPUS [--truth TRUTH.jsonl] [--sample N | --files N] [--seed S] [--classes REGEX]

Each file in the folder CORPUS is checked on its own, without configuration or examples. The classes that count are
those that ran in TRUTH (README.md in this folder describes the format) or, without it, all classes with a `forward`
whose full name matches REGEX. `--sample` draws the given number of classes and runs only these. `--files` draws files,
runs everything in them, and prints the time per file. PYTHONPATH and the interpreter are the user's own.

The output is the share of classes that could be built and that ran in eager mode, how many findings on lines that these
runs reached are confirmed or refuted, and which verdicts contradict TRUTH.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dynalint.config import Configuration, Overrides, parse_layer
from dynalint.confirm import Target, WorkerError, examine
from dynalint.confirm.results import TargetResult
from dynalint.confirming import confirm_options, parts, targets
from dynalint.findings import Finding
from dynalint.linting.lint import Linter
from dynalint.projects.workspace import open_workspace
from dynalint.rulebook.catalogue import known_codes
from dynalint.rules import all_rules

JUDGED = ("confirmed", "refuted")
# If a process ended in a stage whose name contains any of these, the instance already existed.
BUILT = ("inputs of", "running", "comparing")

Class = tuple[str, str]


@dataclass
class Clock:
    """Records from progress reports how many seconds each target took."""

    started: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def __call__(self, done: int, total: int, name: str) -> None:
        """Record that a target starts, or that it is done."""
        now = time.monotonic()
        if name in self.started:
            self.seconds[name] = now - self.started[name]
        self.started.setdefault(name, now)
        if sys.stderr.isatty():
            print(f"\r{done}/{total} {name[:60]:60}", end="", file=sys.stderr, flush=True)


@dataclass
class Measured:
    """The measurements on the corpus: findings with verdicts, each class's result, and each file's time."""

    findings: list[Finding]
    heard: dict[Class, TargetResult]
    seconds: dict[str, float]


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--truth", type=Path)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--sample", type=int, metavar="N", help="so many classes, drawn at random")
    size.add_argument("--files", type=int, metavar="N", help="so many files, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--classes", default=r"\w+", help="without a truth file: which classes, by their names")
    parser.add_argument("--pattern", default="**/*.py", help="without a truth file: which files")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="tell each class that did not run, and why")
    options = parser.parse_args(arguments)
    corpus = options.corpus.resolve()
    records = [json.loads(line) for line in options.truth.read_text().splitlines()] if options.truth else []
    wanted = sorted(_known(records) if records else _defined(corpus, options.pattern, re.compile(options.classes)))
    draw = random.Random(options.seed)  # noqa: S311 - a sample, no secret
    if options.sample:
        wanted = sorted(draw.sample(wanted, min(options.sample, len(wanted))))
    elif options.files:
        files = sorted({file for file, _ in wanted})
        drawn = set(draw.sample(files, min(options.files, len(files))))
        wanted = [one for one in wanted if one[0] in drawn]
    if not wanted:
        print("inputs: no class to run is named there; draw by --classes, without --truth", file=sys.stderr)
        return 2
    try:
        measured = measure(corpus, wanted, options.jobs, only=bool(options.sample))
    except WorkerError as fault:
        print(f"inputs: {fault}", file=sys.stderr)
        return 2
    report(measured, wanted, timed=not options.sample)
    if options.list:
        list_failures(measured, wanted)
    if records:
        for sentence in contradicted(measured.findings, records):
            print(sentence)
    return 0


def _known(records: Iterable[Mapping[str, Any]]) -> set[Class]:
    """Return the classes that ran when the truth was measured."""
    return {(record["file"], record["cls"]) for record in records if record["status"] == "ok" and record["cls"] != "*"}


def _defined(corpus: Path, pattern: str, names: re.Pattern[str]) -> Iterator[Class]:
    """Yield the classes in a folder that define `forward` themselves."""
    for path in sorted(corpus.glob(pattern)):
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.ClassDef) and names.fullmatch(node.name):
                methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
                if "forward" in methods:
                    yield path.relative_to(corpus).as_posix(), node.name


def measure(corpus: Path, wanted: Sequence[Class], jobs: int, *, only: bool) -> Measured:
    """Check the files that define these classes. If `only` is true, do not run other classes.

    Raises:
        WorkerError: If no code can be run at all.
    """
    layer = parse_layer({"confirm": "auto", "jobs": jobs, "cache": False}, corpus, lambda _: "the command line")
    configuration = Configuration(Overrides((layer,), isolated=True), known_codes(), corpus)
    seconds: dict[str, float] = {}
    findings: list[Finding] = []
    chosen: list[Target] = []
    asked = set(wanted)
    leading: list[Callable[[Finding], Sequence[Target]]] = []
    for file in sorted({file for file, _ in wanted}):
        begin = time.monotonic()
        workspace, _ = open_workspace([corpus / file], configuration, corpus)
        result = Linter(workspace, all_rules()).lint()
        seconds[file] = time.monotonic() - begin
        findings += [one.finding for one in result.linted if one.finding.category == "graph-break"]
        leading.append(parts(workspace, result))
        found = targets(workspace, result)
        chosen += [one for one in found if not only or (_file(one, corpus), one.qualname) in asked]
    clock = Clock()
    options = confirm_options(workspace, result.analysis.project.roots)

    def leading_to(finding: Finding) -> Sequence[Target]:
        return next((found for one in leading if (found := one(finding))), ())

    judged, results = examine(findings, chosen, options, clock, parts=leading_to)
    names = {target.name: _file(target, corpus) for target in chosen}
    for name, taken in clock.seconds.items():
        if name in names:
            seconds[names[name]] += taken / jobs
    heard = {(_file(one.target, corpus), one.target.qualname): one for one in results}
    return Measured([one for one in judged if one.code != "DYN001"], heard, seconds)


def _file(target: Target, corpus: Path) -> str:
    path = target.path.resolve()
    return path.relative_to(corpus).as_posix() if path.is_relative_to(corpus) else str(path)


def built(result: TargetResult | None) -> bool:
    """Return whether an instance was created."""
    if result is None:
        return False
    problem = result.problem
    if problem is None or problem.phase in ("inputs", "run"):
        return True
    return problem.phase == "process" and any(words in problem.stage for words in BUILT)


def ran(result: TargetResult | None) -> bool:
    """Return whether the target completed in eager mode."""
    return result is not None and result.eager is not None and result.eager.error is None


def report(measured: Measured, wanted: Sequence[Class], *, timed: bool) -> None:
    """Print the shares."""
    heard = [measured.heard.get(one) for one in wanted]
    _share("classes built", sum(map(built, heard)), len(wanted))
    _share("classes run in eager", sum(map(ran, heard)), len(wanted))
    reached: dict[str, set[int]] = defaultdict(set)
    for result in measured.heard.values():
        if ran(result) and result.eager is not None:
            for path, lines in result.eager.lines.items():
                reached[path].update(lines)
    corpus_findings = [one for one in measured.findings if one.category == "graph-break"]
    on_lines = [one for one in corpus_findings if _reached(one, reached)]
    _share("findings judged, of those on lines reached", sum(_judged(one) for one in on_lines), len(on_lines))
    _share("findings judged, of all", sum(map(_judged, corpus_findings)), len(corpus_findings))
    for one in on_lines:
        if not _judged(one):
            print(f"  {one.path}:{one.line} {one.code} {one.evidence.status}: {one.evidence.detail}")
    if timed:
        print(f"median seconds a file: {statistics.median(measured.seconds.values()):.2f}")


def _judged(finding: Finding) -> bool:
    return finding.evidence.status in JUDGED


def _reached(finding: Finding, reached: Mapping[str, set[int]]) -> bool:
    lines = next((lines for path, lines in reached.items() if path.endswith(f"/{finding.path}")), set())
    return not lines.isdisjoint(range(finding.line, finding.end_line + 1))


def _share(what: str, part: int, whole: int) -> None:
    print(f"{what}: {part} of {whole} ({part / whole:.1%})" if whole else f"{what}: none")


def list_failures(measured: Measured, wanted: Sequence[Class]) -> None:
    """Print each class that did not run, with the reason."""
    for file, name in wanted:
        result = measured.heard.get((file, name))
        if ran(result):
            continue
        problem = result.problem if result is not None else None
        if problem is None:
            reason = "no target"
        elif problem.failure is not None:
            reason = f"{problem.phase}: {' '.join(problem.failure.message.split())}"
        else:
            reason = f"{problem.outcome} while {problem.stage}"
        print(f"  {file} {name} {reason}")


def contradicted(findings: Iterable[Finding], records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each verdict that contradicts the truth, on lines that ran there.

    The truth only covers breaks. Verdicts on recompilations or wrong results are not compared, and neither are breaks
    that only appear after another one has been fixed.
    """
    sites: dict[str, set[int]] = defaultdict(set)
    lines: dict[str, set[int]] = defaultdict(set)
    for record in records:
        lines[record["file"]].update(record.get("lines", ()))
        sites[record["file"]].update(one["frames"][-1][0] for one in record.get("breaks", ()) if one["frames"])
    for one in (one for one in findings if one.category == "graph-break"):
        covered = set(range(one.line, one.end_line + 1))
        broke = bool(covered & sites[one.path])
        if one.evidence.status == "refuted" and broke:
            yield f"refuted, and broke in truth: {one.path}:{one.line} {one.code}"
        if one.evidence.status == "confirmed" and not broke and covered & lines[one.path]:
            yield f"confirmed, and ran whole in truth: {one.path}:{one.line} {one.code} {one.evidence.detail}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
