"""Measure how well the static check agrees with Dynamo, as recall and precision on measured code.

    python benchmarks/accuracy.py CORPUS TRUTH.jsonl [--measured-only] [--leave-out TEXT] [--list misses|false-alarms]

CORPUS is the folder with the measured code. TRUTH has a JSON record per line, each for a module class that was built
and called with a counting backend. README.md in this folder describes the keys.

Recall is the share of break sites that a graph-break finding covers. Precision is the share of graph-break findings
that cover a break site, among findings with a line that ran. Nothing is known about the others. A site is a line, and
more than one module can break on it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

RAN = ("ok", "compile-fail")
CALLS = 3


class Place(NamedTuple):
    """A line in a file of the corpus."""

    file: str
    line: int


@dataclass
class Truth:
    """The measurements, which are the lines that ran, the kind of break at each site, and the classes that recompiled.

    `vanishing` are sites that only break because another site did. Findings there are neither required nor wrong.
    `counted` are lines that ran in a class whose graphs were counted, and `growing` are lines that ran in a class that
    recompiled.
    """

    ran: set[Place] = field(default_factory=set)
    sites: dict[Place, str] = field(default_factory=dict)
    vanishing: set[Place] = field(default_factory=set)
    recompiled: set[tuple[str, str]] = field(default_factory=set)
    counted: set[Place] = field(default_factory=set)
    growing: set[Place] = field(default_factory=set)
    lines_of: dict[tuple[str, str], set[Place]] = field(default_factory=dict)

    def add(self, record: Mapping[str, Any], left_out: Iterable[str], verdict: str | None = None) -> None:
        """Add a record, without breaks whose reason contains any of the texts in `left_out`.

        If `verdict` is given, only sites marked with this verdict count.
        """
        if record["status"] not in RAN:
            return
        file = record["file"]
        self.ran.update(Place(file, line) for line in record["lines"])
        graphs: list[int] = record.get("graphs") or []
        # The first repeated call may compile again for a reason that no longer applies afterwards, such as a lazy
        # buffer. The second should not.
        if len(graphs) == CALLS:
            self.counted.update(Place(file, line) for line in record["lines"])
        if len(graphs) == CALLS and graphs[-1] > graphs[-2]:
            self.recompiled.add((file, record["cls"]))
            self.lines_of[file, record["cls"]] = {Place(file, line) for line in record["lines"]}
            self.growing |= self.lines_of[file, record["cls"]]
        for broken in record["breaks"]:
            if not broken["frames"] or any(text in broken["reason"] for text in left_out):
                continue
            innermost_line = broken["frames"][-1][0]
            place = Place(file, innermost_line)
            if broken.get("verdict") == "cascade":
                self.vanishing.add(place)
            elif verdict is None or broken.get("verdict") == verdict:
                self.sites.setdefault(place, broken["gb"])


@dataclass
class Score:
    """The result of comparing findings with the truth."""

    found: set[Place] = field(default_factory=set)
    right: list[Mapping[str, Any]] = field(default_factory=list)
    wrong: list[Mapping[str, Any]] = field(default_factory=list)
    unknown: int = 0
    recompiled: set[tuple[str, str]] = field(default_factory=set)
    recompiles_right: int = 0
    recompiles_wrong: list[Mapping[str, Any]] = field(default_factory=list)


def read_truth(path: Path, left_out: Iterable[str], verdict: str | None = None) -> Truth:
    """Read a truth file, including all sites or only the sites with a given verdict."""
    truth = Truth()
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            truth.add(json.loads(line), left_out, verdict)
    return truth


def check(corpus: Path, files: Sequence[str]) -> list[dict[str, Any]]:
    """Return the findings of `dynalint check --static` for some files in the corpus, with paths relative to it."""
    command = [sys.executable, "-m", "dynalint", "check", "--static", "--isolated", "--no-cache"]
    ran = subprocess.run(
        [*command, "--output-format", "json", *files], cwd=corpus, capture_output=True, text=True, check=False
    )
    if ran.stderr:
        print(ran.stderr, file=sys.stderr, end="")
    if ran.returncode not in (0, 1):
        sys.exit(f"accuracy: dynalint ended with {ran.returncode}")
    return list(json.loads(ran.stdout))


def score(findings: Iterable[Mapping[str, Any]], truth: Truth) -> Score:
    """Compare findings with the truth."""
    result = Score()
    for finding in findings:
        places = {Place(finding["path"], line) for line in range(finding["line"], last_line(finding) + 1)}
        if finding["category"] == "recompile":
            result.recompiles_right += bool(places & truth.growing)
            if places & truth.counted and not places & truth.growing:
                result.recompiles_wrong.append(finding)
            result.recompiled |= {
                (file, name)
                for file, name in truth.recompiled
                if file == finding["path"] and (reaches(finding, name) or places & truth.lines_of[file, name])
            }
        if finding["category"] != "graph-break":
            continue
        sites = places & truth.sites.keys()
        result.found |= sites
        if sites:
            result.right.append(finding)
        elif places & truth.vanishing:
            continue
        elif places & truth.ran:
            result.wrong.append(finding)
        else:
            result.unknown += 1
    return result


def last_line(finding: Mapping[str, Any]) -> int:
    """Return the last line that a finding covers.

    Its end is exclusive, so an end in column 1 is on the previous line.
    """
    line, end, end_column = int(finding["line"]), int(finding["end_line"]), int(finding["end_column"])
    return max(line, end - 1 if end_column == 1 else end)


def reaches(finding: Mapping[str, Any], class_name: str) -> bool:
    """Return whether a finding is in this class or was reached through it. Records for whole files are named `*`."""
    chain = [finding["function"], *finding["region"]]
    return class_name == "*" or any(class_name in function.split(".")[:-1] for function in chain)


def summary(truth: Truth, result: Score) -> Iterator[str]:
    """Yield the lines of the report."""
    right, wrong = len(result.right), len(result.wrong)
    yield f"recall     {share(len(result.found), len(truth.sites))} of the break sites are covered by a finding"
    yield f"precision  {share(right, right + wrong)} of the findings that ran cover a break site"
    yield f"           {result.unknown} findings stand on lines that never ran"
    if truth.recompiled:
        judged = result.recompiles_right + len(result.recompiles_wrong)
        found_classes = share(len(result.recompiled), len(truth.recompiled))
        yield f"recompiles {found_classes} of the classes that recompile have a finding"
        yield f"           {share(result.recompiles_right, judged)} of the recompile findings stand in such a class"
    yield ""
    yield f"{'found':>6} {'sites':>6}  kind of break"
    kinds = Counter(truth.sites.values())
    found = Counter(truth.sites[place] for place in result.found)
    yield from (f"{found[kind]:6} {count:6}  {kind}" for kind, count in kinds.most_common())
    yield ""
    yield f"{'right':>6} {'wrong':>6}  code"
    by_code: dict[str, Counter[str]] = defaultdict(Counter)
    for verdict in ("right", "wrong"):
        for finding in getattr(result, verdict):
            by_code[finding["code"]][verdict] += 1
    yield from (f"{counts['right']:6} {counts['wrong']:6}  {code}" for code, counts in sorted(by_code.items()))


def share(part: int, whole: int) -> str:
    """Return a share such as `0.50 (1/2)`, or a dash if the whole is zero."""
    return f"{part / whole:.2f} ({part}/{whole})" if whole else "-"


def listing(which: str, truth: Truth, result: Score) -> Iterator[str]:
    """Yield the sites that no finding covers, or the findings that cover no site, each as a line."""
    if which == "misses":
        missed = sorted(truth.sites.keys() - result.found)
        yield from (f"{place.file}:{place.line}: {truth.sites[place]}" for place in missed)
        yield from (f"{file}: {name} recompiles" for file, name in sorted(truth.recompiled - result.recompiled))
    else:
        yield from (
            f"{finding['path']}:{finding['line']}: {finding['code']} {finding['message']}"
            for finding in [*result.wrong, *result.recompiles_wrong]
        )


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--findings", type=Path, help="score these (a JSON array) instead of running dynalint")
    parser.add_argument(
        "--measured-only",
        action="store_true",
        help="check only the files that were measured; for a corpus whose files do not call each other",
    )
    parser.add_argument("--leave-out", action="append", default=[], metavar="TEXT", help="breaks with this reason")
    parser.add_argument("--list", choices=("misses", "false-alarms"), help="print these after the report")
    options = parser.parse_args()
    truth = read_truth(options.truth, options.leave_out)
    if options.findings:
        findings = json.loads(options.findings.read_text(encoding="utf-8"))
    else:
        findings = check(
            options.corpus, sorted({place.file for place in truth.ran}) if options.measured_only else ["."]
        )
    result = score(findings, truth)
    print(*summary(truth, result), sep="\n")
    if options.list:
        print("", *listing(options.list, truth, result), sep="\n")


if __name__ == "__main__":
    main()
