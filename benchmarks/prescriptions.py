"""Measure how many measured graph breaks disappear with the settings that dynalint has tried and suggests.

    python benchmarks/prescriptions.py CORPUS TRUTH.jsonl [--classes REGEX] [--seconds N] [--repaired FILE]
    python benchmarks/prescriptions.py CORPUS TRUTH.jsonl --examples EXAMPLES.json [--seconds N] [--repaired FILE]

CORPUS and TRUTH.jsonl are the same as for `accuracy.py`. The models in files with graph breaks are built and called as
in `dynalint explain`, with generated inputs if none are declared, until each break site in the file has been reached.
Settings that may help, such as `capture_scalar_outputs`, and `fullgraph=True`, which implies some of them, are tried by
running the model. Settings that change results do not count. If time ran out before results could be compared, this is
reported. A site vanishes if it vanishes in every model that reached it. `--sample` draws files at random. The same
`--seed` always gives the same files.

`--examples` names a file that maps examples, written as in the configuration, to the sites `FILE:LINE` that they run.
`tested_models.py` creates one from a library's tests. With this option, no inputs are generated. The next example is
always the one that runs the most unreached sites, until there are none.

If sites remain, the same example is run in the mode `given` of `tested_models.py`, which passes values that the library
allows callers to compute in advance. Sites that no longer break, and for which results are the same, count as vanishing
with arguments.

`--repaired` names a file with the output of `fixes.py --list repaired`, to count fixes and settings together. `--fixed`
is the folder written by `fixes.py --write`, in which settings are then tried.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accuracy import Place, read_truth
from fixes import new_lines

from dynalint.config import Configuration, Overrides, parse_layer
from dynalint.confirm import Target
from dynalint.confirm.client import Worker
from dynalint.confirm.requests import request_for, worker_options
from dynalint.confirm.worker.dynamo.graph_records import Outcome, Remedy, Tried
from dynalint.confirm.worker.dynamo.records import decode
from dynalint.confirming import confirm_options, targets
from dynalint.linting.lint import Linter
from dynalint.projects.workspace import open_workspace
from dynalint.rulebook.catalogue import known_codes
from dynalint.rules import all_rules


@dataclass
class Measured:
    """The measurements: the sites that each model reached, and the settings with which each site vanished."""

    asked: int = 0
    ran: int = 0
    broken: int = 0
    whole: int = 0
    vanished: dict[Place, set[str]] = field(default_factory=dict)
    left: set[Place] = field(default_factory=set)
    uncompared: set[Place] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)
    tried: dict[str, list[Tried]] = field(default_factory=dict)
    moved: dict[Place, Place] = field(default_factory=dict)

    def add(self, other: Measured) -> None:
        """Add what another model showed."""
        for name in ("asked", "ran", "broken", "whole"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for site, names in other.vanished.items():
            self.vanished.setdefault(site, set()).update(names)
        self.left |= other.left
        self.uncompared |= other.uncompared
        self.failures += other.failures
        self.tried |= other.tried

    @property
    def reached(self) -> set[Place]:
        """The sites that broke in at least one model."""
        return self.vanished.keys() | self.left

    @property
    def proven(self) -> set[Place]:
        """The sites that vanished in every model that reached them."""
        return self.vanished.keys() - self.left


def _configuration(corpus: Path, options: argparse.Namespace) -> Configuration:
    values = {"confirm": "always" if options.confirm else "auto", "timeout": options.seconds}
    if options.python:
        values["python"] = options.python
    layer = parse_layer(values, corpus, lambda _: "the command line")
    return Configuration(Overrides((layer,), isolated=True), known_codes(), corpus)


def measure(corpus: Path, sites: set[Place], options: argparse.Namespace) -> Measured:
    """Run the models in each file with sites, one file after another."""
    configuration = _configuration(corpus, options)
    seen = Measured()
    names = re.compile(options.classes)
    for file in sorted({site.file for site in sites}):
        wanted = {site for site in sites if site.file == file}
        workspace, _ = open_workspace([corpus / file], configuration, corpus)
        result = Linter(workspace, all_rules()).lint()
        chosen = [one for one in targets(workspace, result) if names.fullmatch(one.qualname)]
        chosen = [one for one in chosen if one.path.resolve() == corpus / file]
        confirming = confirm_options(workspace, result.analysis.project.roots)
        confirming = replace(confirming, roots=(*confirming.roots, corpus))
        with Worker(worker_options(confirming)) as worker:
            for target in chosen[: options.most]:
                if wanted <= seen.reached:
                    break
                answer = worker.ask("operations.advising:advise", request_for(target, confirming))
                _take(seen, target, answer.parts, sites, corpus)
        if sys.stderr.isatty() or options.list:
            print(f"{file}: {len(wanted & seen.proven)} of {len(wanted)}", file=sys.stderr, flush=True)
    return seen


def measure_examples(corpus: Path, sites: set[Place], examples: Mapping[str, set[Place]], options: Any) -> Measured:
    """Run the examples, always choosing the example that runs the most sites not reached so far."""
    workspace, _ = open_workspace([corpus / min(sites).file], _configuration(corpus, options), corpus)
    confirming = replace(confirm_options(workspace, (corpus,)), roots=(corpus,))
    left = dict(examples)
    seen = Measured(moved=moved(sites, Path(options.original), corpus) if options.original else {})

    def ask(name: str) -> Measured:
        one = Measured(moved=seen.moved)
        target = Target(Path(name.partition(":")[0]), "", name.partition(":")[2])
        with Worker(worker_options(confirming)) as worker:
            answer = worker.ask("operations.advising:advise", request_for(target, confirming) | {"example": name})
        _take(one, target, answer.parts, sites, corpus)
        return one

    while left:
        name = max(left, key=lambda one: len((left[one] & sites) - seen.reached))
        if not (left.pop(name) & sites) - seen.reached:
            break
        found = ask(name)
        if found.left and name.endswith("eval"):
            again = ask(f"{name.removesuffix('eval')}given")
            for site in found.left - again.left if again.ran else ():
                found.vanished.setdefault(site, set()).add("arguments")
            found.left &= again.left if again.ran else found.left
            found.tried |= again.tried
        seen.add(found)
        if sys.stderr.isatty() or options.list:
            print(f"{name}: {len(seen.proven)} of {len(seen.reached)}", file=sys.stderr, flush=True)
    return seen


def moved(sites: set[Place], original: Path, corpus: Path) -> dict[Place, Place]:
    """Return the original site for each site in the fixed files."""
    found = {}
    for file in {site.file for site in sites}:
        lines = new_lines((original / file).read_text("utf-8"), (corpus / file).read_text("utf-8"))
        found.update({Place(file, new): site for site in sites if site.file == file for new in lines[site.line]})
    return found


def _take(seen: Measured, target: Target, parts: Mapping[str, Any], sites: set[Place], corpus: Path) -> None:
    """Record the result for a model."""
    seen.asked += 1
    if "before" not in parts:
        seen.failures.append(f"{target.name}: {parts.get('problem', 'the process ended')}"[:300])
        return
    before = decode(Outcome, parts["before"])
    seen.tried[target.name] = [decode(Tried, one) for one in parts.get("tried", ())]
    seen.ran += 1
    seen.broken += bool(before.breaks)
    useful = [one for one in seen.tried[target.name] if not one.outcome.error]
    best = min(useful, key=lambda one: (one.outcome.breaks, one.name == "fullgraph"), default=None)
    remedies = [decode(Remedy, one) for one in parts.get("remedies", ())]
    equal = [one.equal for one in remedies if best is not None and one.tried.name == best.name]
    broke = {seen.moved.get(place, place) for place in _places(before, corpus)} & sites
    if best is None or False in equal:
        seen.left |= broke
        return
    seen.whole += bool(before.breaks) and not best.outcome.breaks
    left = broke & {seen.moved.get(place, place) for place in _places(best.outcome, corpus)}
    seen.left |= left
    for site in broke - left:
        seen.vanished.setdefault(site, set()).add(best.name)
        if True not in equal:
            seen.uncompared.add(site)


def _places(outcome: Outcome, corpus: Path) -> Iterator[Place]:
    for name, line in outcome.places:
        path = Path(name)
        if path.is_relative_to(corpus):
            yield Place(path.relative_to(corpus).as_posix(), line)


def _read_examples(path: Path) -> dict[str, set[Place]]:
    """Return the sites that each example runs."""
    places = {name: [one.rpartition(":") for one in found] for name, found in json.loads(path.read_text()).items()}
    return {name: {Place(file, int(line)) for file, _, line in found} for name, found in places.items()}


def repaired_in(path: Path) -> set[Place]:
    """Return the sites in the output of `fixes.py --list repaired`."""
    found = re.findall(r"^(\S+):(\d+): repaired:", path.read_text(), re.MULTILINE)
    return {Place(file, int(line)) for file, line in found}


def summary(seen: Measured, sites: set[Place], repaired: set[Place] | None) -> Iterator[str]:
    """Yield the lines of the report."""
    yield f"{seen.ran:5} of {seen.asked} models were built and ran"
    yield f"{seen.whole:5} of {seen.broken} of these that break are whole with settings"
    yield f"{len(seen.reached):5} of {len(sites)} break sites were reached"
    yield f"{len(seen.proven):5} of {len(seen.reached)} of these vanish under settings"
    yield f"{len(seen.proven - seen.uncompared):5} of {len(seen.proven)} of these with results compared, and equal"
    names = Counter(name for site in seen.proven for name in seen.vanished[site])
    yield from (f"{count:9}  {name}" for name, count in names.most_common())
    if repaired is not None:
        together = (seen.proven | repaired) & sites
        yield f"{len(repaired & sites):5} of {len(sites)} break sites are repaired by fixes"
        yield f"{len(together):5} of {len(sites)} by fixes or settings"
        known = seen.reached | (repaired & sites)
        yield f"{len(together):5} of {len(known)} of those that were reached or repaired"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--classes", default=r"\w*(?:Model|For[A-Z]\w*)", help="the models to ask, by their names")
    parser.add_argument("--examples", type=Path, metavar="FILE", help="which examples run which sites")
    parser.add_argument("--most", type=int, default=4, metavar="N", help="ask so many models of a file at most")
    parser.add_argument("--seconds", type=int, default=60, help="for one model; about half of it goes to settings")
    parser.add_argument("--python", help="the interpreter that has what the code imports")
    parser.add_argument("--confirm", action="store_true", help="run the code even where no sandbox holds")
    parser.add_argument("--leave-out", action="append", default=[], metavar="TEXT", help="breaks with this reason")
    parser.add_argument("--verdict", help="only breaks that the truth marks with this verdict")
    parser.add_argument("--files", nargs="+", help="only these files of the corpus")
    parser.add_argument("--sample", type=int, metavar="N", help="so many files, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repaired", type=Path, metavar="FILE", help="what `fixes.py --list repaired` printed")
    parser.add_argument("--fixed", type=Path, metavar="FOLDER", help="what `fixes.py --write` wrote; for `--examples`")
    parser.add_argument("--list", action="store_true", help="print each site, and each model that did not run")
    options = parser.parse_args(arguments)
    corpus = (options.fixed or options.corpus).resolve()
    if not corpus.is_dir():
        parser.error(f"{corpus} is no folder")
    options.original = options.corpus if options.fixed else None
    truth = read_truth(options.truth, options.leave_out, options.verdict)
    sites = {place for place in truth.sites if not options.files or place.file in options.files}
    files = sorted({site.file for site in sites})
    if options.sample and options.sample < len(files):
        drawn = random.Random(options.seed).sample(files, options.sample)  # noqa: S311 - a sample, no secret
        sites = {site for site in sites if site.file in drawn}
    if options.examples:
        seen = measure_examples(corpus, sites, _read_examples(options.examples), options)
    else:
        seen = measure(corpus, sites, options)
    print(*summary(seen, sites, repaired_in(options.repaired) if options.repaired else None), sep="\n")
    if options.list:
        for site in sorted(sites):
            state = "vanishes" if site in seen.proven else "left" if site in seen.left else "not reached"
            print(f"{site.file}:{site.line}: {state} {', '.join(sorted(seen.vanished.get(site, ())))}".rstrip())
        for name, tried in seen.tried.items():
            for one in tried:
                print(f"{name}: {one.name}: {one.outcome.error or one.outcome.breaks}")
        print(*(f"not run: {one}" for one in seen.failures), sep="\n")


if __name__ == "__main__":
    main()
