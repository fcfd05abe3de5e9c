"""Measure how many measured graph breaks `dynalint fix` removes, why not the others, and whether results change.

    python benchmarks/fixes.py CORPUS TRUTH.jsonl [--unsafe-fixes] [--static | --assume] [--rerun] [--list KIND]

CORPUS and TRUTH.jsonl are the same as for `accuracy.py`. Nothing is written to the corpus. A break site counts as
repaired if every finding that covers it is fixed. Fixes are verified by running the code, as in `dynalint fix`.
`--static` does not run any code, and `--assume` assumes that the conditions of conditional fixes hold, which quickly
shows what fixes there are. `--examples` verifies fixes with the cases listed in the files (see `rerun.py`) instead of
generated inputs.

`--rerun` runs each changed file and its original, and shows differences in eager mode and the sites that still break.
`rerun.py` describes how a file lists its cases.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from accuracy import Place, last_line, read_truth

from dynalint import engine
from dynalint.config import Configuration, Overrides, environment_layer, parse_layer
from dynalint.findings import Finding
from dynalint.fix import FixOptions, FixResult, Unit, Verification, fix_findings
from dynalint.projects.workspace import open_workspace
from dynalint.rulebook.catalogue import known_codes

EXAMPLES = """
from importlib import import_module

def case(number):
    made, init, called, *_ = import_module({module!r}).{cases}[number]
    args, kwargs = init() if init is not None else ([], {{}})
    made = made(*args, **kwargs) if init is not None else made
    args, kwargs = called()
    return made, tuple(args), kwargs
"""

State = Literal["repaired", "refused", "declined", "silent", "unflagged"]
STATES: Mapping[State, str] = {
    "repaired": "are repaired",
    "refused": "have a fix that was not taken",
    "declined": "have a finding whose fix is declined",
    "silent": "have a finding of a rule without fixes",
    "unflagged": "have no finding",
}


@dataclass(frozen=True)
class Site:
    """A break site, with the kind of break, the outcome and the reason."""

    place: Place
    kind: str
    state: State
    codes: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        return f"{self.place.file}:{self.place.line}: {self.state}: {' '.join(self.codes)} {self.why}".rstrip()


@dataclass
class Rerun:
    """The result of running changed files and their originals."""

    cases: int = 0
    ran: int = 0
    different: list[str] = field(default_factory=list)
    unstable: int = 0
    failed: list[str] = field(default_factory=list)
    left: set[Place] = field(default_factory=set)
    gone: set[Place] = field(default_factory=set)


def fix(
    corpus: Path, files: Sequence[str], options: argparse.Namespace, around: Sequence[str] = ()
) -> tuple[list[Finding], FixResult]:
    """Fix files in a corpus in memory, and return the findings and the result.

    Unless each file is fixed alone, the files in `around` are read too, because compiled code may start there.
    """
    # The breaks are known. If the cases are known as well, only the fixes have to be run.
    still = options.static or options.assume or options.examples
    values: dict[str, Any] = {
        "select": ["ALL"],
        "confirm": "never" if still else "always" if options.confirm else "auto",
        "unsafe-fixes": options.unsafe_fixes,
    }
    configuration = _configuration(values, corpus)
    groups = [[file] for file in files] if options.separately else [sorted({*files, *around})]
    found: list[Finding] = []
    results = []
    for group in groups:
        paths = [corpus / file for file in group]
        workspace, _ = open_workspace(paths, configuration, corpus)
        checked = engine.check(workspace).offered()
        own = {(corpus / file).resolve() for file in files}
        # Findings in other files are not fixed, but they must be known, so that they are not mistaken for new findings
        # later.
        linted = tuple(one if one.file.path.resolve() in own else replace(one, rewrite=None) for one in checked.linted)
        checked = replace(checked, linted=linted)
        if options.examples:
            examples = examples_of(corpus, group, options)
            running = _configuration({**values, "confirm": "always", "examples": examples}, corpus)
            workspace, _ = open_workspace(paths, running, corpus)
        found += [one.finding for one in checked.linted]
        if options.assume:
            limits, views = FixOptions(options.unsafe_fixes), engine.views_of(checked)
            results.append(fix_findings(checked.linted, checked.linter, limits, _assumed, views))
        else:
            result, failures = engine.fix(checked, verify=not options.static)
            results.append(result)
            for failure in failures:
                print(f"fixes: {failure}", file=sys.stderr)
    return found, _joined(results)


def _configuration(values: Mapping[str, Any], corpus: Path) -> Configuration:
    layers = (environment_layer(os.environ, corpus), parse_layer(values, corpus, lambda _: "the command line"))
    return Configuration(Overrides(layers, isolated=True), known_codes(), corpus)


def examples_of(corpus: Path, files: Iterable[str], options: argparse.Namespace) -> dict[str, str]:
    """Write functions that return the cases in the files, and return the functions' names by target."""
    found: dict[str, str] = {}
    for file in files:
        module = file.removesuffix(".py").replace("/", ".")
        written = f"examples_{len(list(options.examples.iterdir()))}"
        text = EXAMPLES.format(module=module, cases=options.cases)
        for number, name in enumerate(_listed((corpus / file).read_text(encoding="utf-8"), options.cases)):
            text += f"\ndef example_{number}():\n    return case({number})\n"
            found.setdefault(f"{module}:{name}", f"{written}:example_{number}")
        (options.examples / f"{written}.py").write_text(text, encoding="utf-8")
    return found


def _listed(text: str, cases: str) -> Iterator[str]:
    """Yield the names of the cases in a file."""
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == cases:
            assert isinstance(statement.value, ast.List)
            yield from (ast.unparse(one.elts[0]) for one in statement.value.elts if isinstance(one, ast.Tuple))


def _joined(results: Sequence[FixResult]) -> FixResult:
    """Combine the results of fixing files separately."""
    fields = ("files", "groups", "fixed", "refused", "remaining", "notes", "failures")
    return FixResult(**{name: tuple(one for result in results for one in getattr(result, name)) for name in fields})


def _assumed(_before: object, _after: object, units: Sequence[Unit]) -> dict[Unit, Verification]:
    return dict.fromkeys(units, Verification("proven", "assumed"))


def judge(sites: Mapping[Place, str], found: Iterable[Finding], result: FixResult) -> Iterator[Site]:
    """Yield the outcome for each break site."""
    covering: dict[Place, list[Finding]] = defaultdict(list)
    for finding in found:
        if finding.category in ("graph-break", "miscompile", "recompile") or finding.fix is not None:
            for line in range(finding.line, last_line(finding.to_json()) + 1):
                covering[Place(finding.path, line)].append(finding)
    fixed = {one.finding.sort_key for one in result.fixed}
    refused = {one.finding.sort_key: one for one in result.refused}
    for place, kind in sorted(sites.items()):
        # Advice on the same line, such as a recompilation caused by the break, does not count as a remaining break.
        breaking = [finding for finding in covering[place] if finding.category == "graph-break"] or covering[place]
        here = [finding for finding in breaking if finding.sort_key not in fixed]
        codes = tuple(sorted({finding.code for finding in here or covering[place]}))
        held_back = [refused[finding.sort_key] for finding in here if finding.sort_key in refused]
        declined = [finding.fix.declined for finding in here if finding.fix and finding.fix.declined]
        if not covering[place]:
            yield Site(place, kind, "unflagged", codes, "")
        elif not here:
            yield Site(place, kind, "repaired", codes, "")
        elif held_back:
            # A finding that had no fix at first may have been fixed after other fixes changed the code around it.
            unlock = f" ({held_back[0].unlock} takes it)" if held_back[0].unlock else ""
            yield Site(place, kind, "refused", codes, held_back[0].reason + unlock)
        elif declined:
            yield Site(place, kind, "declined", codes, declined[0])
        else:
            yield Site(place, kind, "silent", codes, "")


def rerun(corpus: Path, result: FixResult, sites: Iterable[Place], cases: str) -> Rerun:
    """Run the changed files and their originals."""
    seen = Rerun()
    with tempfile.TemporaryDirectory() as folder:
        pairs: list[str] = []
        for number, file in enumerate(result.files):
            rewritten = Path(folder, str(number), file.source.path.name)
            rewritten.parent.mkdir()
            rewritten.write_bytes(file.data)
            pairs += [str(file.source.path), str(rewritten)]
        command = [sys.executable, str(Path(__file__).with_name("rerun.py")), *pairs, "--cases", cases]
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True) if pairs else None
    answers = map(json.loads, ran.stdout.splitlines() if ran else ())
    for file, answer in zip(result.files, answers, strict=True):
        name = file.source.path.relative_to(corpus).as_posix()
        if "fault" in answer:
            seen.failed.append(f"{name}: {answer['fault']}")
            continue
        seen.cases += answer["cases"]
        seen.ran += answer["ran"]
        seen.unstable += len(answer["unstable"])
        seen.different += [f"{name}: {case}: {what}" for case, what in answer["different"]]
        seen.failed += [f"{name}: {case}: {fault}" for case, fault in answer["failed"]]
        after = {line for line, _ in answer["after"]}
        reached = {line for line, _ in answer["before"]}
        lines = new_lines(file.source.text, file.text)
        for place in sites:
            if place.file == name and place.line in reached:
                (seen.left if after & lines[place.line] else seen.gone).add(place)
    return seen


def new_lines(old: str, new: str) -> dict[int, set[int]]:
    """Return the lines in the new text for each line in the old, or all lines of a change for a changed line."""
    lines: dict[int, set[int]] = defaultdict(set)
    matcher = difflib.SequenceMatcher(None, old.splitlines(), new.splitlines(), autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        for line in range(start, end):
            lines[line + 1] = (
                {new_start + line - start + 1} if tag == "equal" else set(range(new_start + 1, new_end + 1))
            )
    return lines


def summary(sites: Sequence[Site], result: FixResult, seen: Rerun | None) -> Iterator[str]:
    """Yield the lines of the report."""
    states = Counter(site.state for site in sites)
    for state, words in STATES.items():
        yield f"{states[state]:5} of {len(sites)} break sites {words}"
    if seen is not None:
        reached = len(seen.gone) + len(seen.left)
        yield f"{len(seen.gone):5} of {reached} that were run again in changed files no longer break"
        files = len(result.files)
        yield f"{seen.ran:5} of {seen.cases} cases in {files} changed files ran; {len(seen.different)} differ"
        yield f"{seen.unstable:5} of these differ from themselves"
    yield ""
    yield f"{'sites':>6} {'repaired':>9}  kind of break"
    kinds = Counter(site.kind for site in sites)
    repaired = Counter(site.kind for site in sites if site.state == "repaired")
    yield from (f"{count:6} {repaired[kind]:9}  {kind}" for kind, count in kinds.most_common())
    yield ""
    yield f"{'sites':>6}  left: codes, and why"
    reasons = Counter((" ".join(site.codes), _shape(site.why)) for site in sites if site.state != "repaired")
    yield from (f"{count:6}  {codes or 'no finding'}  {why}" for (codes, why), count in reasons.most_common())


def _shape(why: str) -> str:
    """Return a reason without the code that it quotes, so that equal reasons are counted together."""
    parts = why.split("`")
    return "`...`".join(parts[::2]) if len(parts) > 2 else why


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--unsafe-fixes", action="store_true", help="take fixes that change something by nature")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--static", action="store_true", help="run nothing: only what is exact for every input")
    how.add_argument("--assume", action="store_true", help="run nothing, and take all conditions to hold")
    how.add_argument("--confirm", action="store_true", help="run the code even where no sandbox holds")
    parser.add_argument("--examples", action="store_true", help="verify on what the files list to be run")
    parser.add_argument("--rerun", action="store_true", help="run changed files against their originals")
    parser.add_argument("--cases", default="TESTCASES", help="the name of the list of what to run in a file")
    parser.add_argument("--leave-out", action="append", default=[], metavar="TEXT", help="breaks with this reason")
    parser.add_argument("--verdict", help="only breaks that the truth marks with this verdict")
    parser.add_argument("--separately", action="store_true", help="fix each file alone: for files that share nothing")
    parser.add_argument("--files", nargs="+", help="only these files of the corpus")
    parser.add_argument("--around", nargs="+", default=[], metavar="FILE", help="read these too, for what they call")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write changed files into a copy of the corpus")
    parser.add_argument("--list", choices=[*STATES, "all"], help="print these sites after the report")
    parser.add_argument("--diff", action="store_true", help="print the changes after the report")
    options = parser.parse_args()
    corpus = options.corpus.resolve()
    if not corpus.is_dir():
        parser.error(f"{options.corpus} is no folder")
    truth = read_truth(options.truth, options.leave_out, options.verdict)
    wanted = {place: kind for place, kind in truth.sites.items() if not options.files or place.file in options.files}
    with tempfile.TemporaryDirectory() as folder:
        if options.examples:
            options.examples = Path(folder)
            os.environ["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        found, result = fix(corpus, sorted({place.file for place in wanted}), options, options.around)
    sites = list(judge(wanted, found, result))
    seen = rerun(corpus, result, wanted, options.cases) if options.rerun else None
    print(*summary(sites, result, seen), sep="\n")
    if seen is not None:
        print(*(f"differs: {text}" for text in seen.different), sep="\n")
        print(*(f"not run: {text}" for text in seen.failed), sep="\n")
        print(*(f"still breaks: {place.file}:{place.line}" for place in sorted(seen.left)), sep="\n")
    if options.list:
        print(*(site for site in sites if options.list in (site.state, "all")), sep="\n")
    if options.write:
        for file in result.files:
            (options.write / file.source.path.relative_to(corpus)).write_bytes(file.data)
    if options.diff:
        print(*(file.diff(file.source.path.relative_to(corpus).as_posix()) for file in result.files), sep="\n")


if __name__ == "__main__":
    main()
