"""Select the code to run for static findings, and turn the answers into evidence."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dynalint.analysis import Analysis
from dynalint.analysis.index import ClassInfo, FunctionInfo
from dynalint.analysis.notebook import SUFFIX
from dynalint.analysis.source import SourceFile, read_source
from dynalint.config import Settings
from dynalint.confirm import ConfirmOptions, Execution, Interrupted, Target, WorkerError, examine
from dynalint.confirm.budget import TimeBudget
from dynalint.confirm.verdicts import CONFIRMABLE
from dynalint.findings import Evidence, Finding
from dynalint.fix import Linted
from dynalint.fix.suite import Suite
from dynalint.fix.suite_runs import SuiteCommand
from dynalint.fix.verify import WorkerVerifier
from dynalint.linting.lint import LintResult, suppressions_in
from dynalint.projects.environments import chosen_interpreter
from dynalint.projects.workspace import Workspace
from dynalint.rulebook.catalogue import catalogue

Progress = Callable[[int, int, str], None]

_MEBIBYTE = 1 << 20

# The default budget for each file that has findings. Most files take less than a tenth of this.
_SECONDS_PER_FILE = 240.0
# The maximum number of roots in other files that are run for a finding. The nearest are run first.
_MOST_ROOTS = 4


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Findings with evidence. They include refuted findings and findings that were discovered by running code.

    `failures` are sentences about steps that failed completely, and `notes` are sentences about calls that could not be
    used. `interrupted` indicates whether the user stopped the run, and `ran` indicates whether there was any code to
    run.
    """

    linted: tuple[Linted, ...]
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    ran: bool = False


def confirmed(
    workspace: Workspace, result: LintResult, progress: Progress | None, only: Sequence[Linted] | None = None
) -> Confirmed:
    """Run the code that has findings, and return the findings with evidence. `only` limits this to some findings."""
    wanted = result.linted if only is None else only
    if not wanted and only is not None:
        return Confirmed(())
    notebooks = [one for one in wanted if one.file.path.suffix == SUFFIX]
    before = {one.finding.sort_key: one for one in wanted if one not in notebooks}
    asked, silenced = ([_asserted(one) for one in some] for some in (before.values(), result.silenced))
    options = _within_budget(confirm_options(workspace, result.analysis.project.roots), wanted)
    roots = targets(workspace, result, only)
    ways = parts(workspace, result), _roots_near(workspace, result)
    interrupted = False
    notes: list[str] = []
    try:
        findings, _ = examine(asked, roots, options, progress, silenced, *ways, notes.append)
    except WorkerError as fault:
        return Confirmed(tuple(wanted), (str(fault),))
    except Interrupted as fault:
        findings, interrupted = list(fault.findings), True
    reasons = {one.evidence.detail for one in findings if one.evidence.status == "unconfirmed"}
    failures = [f"nothing was confirmed: {one}" for one in sorted(reasons) if one.startswith("not run: ")]
    if interrupted or (options.mode != "always" and options.answers is None):
        failures.clear()
    files = {workspace.shown(file.path): file for file in result.analysis.files}
    doubts = {(workspace.shown(one.file.path), one.qualname): one.doubt for one in result.analysis.functions}
    linted = [_not_run(one) for one in notebooks]
    for finding in findings:
        known = before.get(finding.sort_key)
        if known is not None:
            linted.append(_judged(known, finding))
        elif only is None:
            doubted = replace(finding, doubt=doubts.get((finding.path, finding.function), ""))
            linted.extend(_discovered(doubted, files, workspace))
    in_order = tuple(sorted(linted, key=lambda one: one.finding.sort_key))
    return Confirmed(in_order, tuple(failures), tuple(notes), interrupted=interrupted, ran=bool(roots))


def _not_run(linted: Linted) -> Linted:
    if linted.finding.category not in CONFIRMABLE:
        return linted
    return replace(linted, finding=replace(linted.finding, evidence=Evidence("unconfirmed", "Notebooks are not run.")))


def _asserted(linted: Linted) -> Finding:
    """Return the claim to confirm. If a finding is conditional, the claim is that it breaks the graph."""
    return replace(linted.finding, category="graph-break") if linted.conditional else linted.finding


def _judged(linted: Linted, finding: Finding) -> Linted:
    """Return a finding with its evidence. A conditional finding is still advice unless it was confirmed."""
    if linted.conditional and finding.evidence.status != "confirmed":
        finding = replace(finding, category=linted.finding.category)
    elif linted.conditional and finding.category != "advice":
        finding = replace(finding, severity="error")
    return replace(linted, finding=finding)


def verifier(
    workspace: Workspace, result: LintResult, progress: Progress | None, *, practical: bool = False
) -> WorkerVerifier:
    """Return a verifier that runs fixes and the original code on the same targets as confirmation."""
    options = _within_budget(confirm_options(workspace, result.analysis.project.roots), result.linted)
    ways = _roots_near(workspace, result), parts(workspace, result)
    return WorkerVerifier(
        options, targets(workspace, result), progress, _heirs(result.analysis), *ways, practical=practical
    )


def suite(
    workspace: Workspace, result: LintResult, linted: Iterable[Linted], command: str, progress: Progress | None
) -> Suite:
    """Return a suite that judges the fixes for `linted` by the project's own tests. `command` runs these tests.

    Raises:
        NotTestedError: If `command` is not a command.
    """
    options = confirm_options(workspace, result.analysis.project.roots)
    return Suite(SuiteCommand(command, options), linted, progress)


def targets(workspace: Workspace, result: LintResult, only: Sequence[Linted] | None = None) -> tuple[Target, ...]:
    """Return the targets to run: compiled roots, and declared examples in the checked files.

    Roots in files around the checked files are only run if they reach a finding. If `only` is given, this is true for
    all roots.
    """
    checked = set(workspace.files)
    heirs = _heirs(result.analysis)
    known = [*_importable(result.analysis.roots), *itertools.chain.from_iterable(heirs.values())]
    every = only is None
    found = dict.fromkeys(target for target in known if every and (target.path in checked or not workspace.around))
    if workspace.around or not every:
        near = _roots_near(workspace, result)
        for one in (*result.linted, *result.silenced) if only is None else only:
            for root in near(one.finding)[:_MOST_ROOTS]:
                found.update(dict.fromkeys([root, *heirs.get(root, ())[:_MOST_ROOTS]]))
    for name in workspace.settings.examples:
        where, _, qualname = name.rpartition(":")
        module = result.analysis.project.find_module(where)
        if module is not None and module.file.path in checked:
            found[Target(module.file.path, module.name, qualname)] = None
    return tuple(found)


def parts(workspace: Workspace, result: LintResult) -> Callable[[Finding], Sequence[Target]]:
    """Return a function that looks up the functions on the call chain to a finding, nearest first.

    A local function, such as a hook, is replaced by the function that contains it.
    """
    functions = {(workspace.shown(one.file.path), one.qualname): one for one in result.analysis.functions}

    def leading_to(finding: Finding) -> Sequence[Target]:
        function = functions.get((finding.path, finding.function))
        return tuple(_importable(map(_around, reversed(function.callers)))) if function is not None else ()

    return leading_to


def _around(function: FunctionInfo) -> FunctionInfo:
    return function if function.enclosing is None else _around(function.enclosing)


def _roots_near(workspace: Workspace, result: LintResult) -> Callable[[Finding], Sequence[Target]]:
    """Return a function that looks up the targets to run in order to reach a finding, nearest first.

    These are compiled roots, and models that inherit from a compiled root and have their own code on the call chain.
    """
    functions = {(workspace.shown(one.file.path), one.qualname): one for one in result.analysis.functions}
    roots = set(result.analysis.roots)
    heirs = frozenset(itertools.chain.from_iterable(_heirs(result.analysis).values()))

    def near(finding: Finding) -> Sequence[Target]:
        function = functions.get((finding.path, finding.function))
        found: dict[Target, None] = {}
        for one in function.leading_here if function is not None else ():
            if one in roots:
                found.update(dict.fromkeys(_importable([one])))
            elif one.owner is not None:
                found.update(dict.fromkeys(target for target in _named(one.owner) if target in heirs))
        return tuple(found)

    return near


def confirm_options(workspace: Workspace, search: Iterable[Path]) -> ConfirmOptions:
    """Return the options for running code, based on the settings. `search` are the folders where imports start."""
    settings = workspace.settings
    return ConfirmOptions(
        mode="always" if settings.confirm == "always" else "auto",
        python=chosen_interpreter(settings).python,
        timeout=settings.timeout,
        memory=settings.memory * _MEBIBYTE,
        device=settings.device,
        examples=settings.examples,
        project=settings.root,
        directory=workspace.directory,
        search=_search(search, settings),
        roots=workspace.named,
        overrides=workspace.texts,
        cache=settings.cache_directory,
        confirm_from=settings.confirm_from,
        jobs=settings.jobs,
        **vars(workspace.execution or Execution()),
    )


def _within_budget(options: ConfirmOptions, linted: Iterable[Linted]) -> ConfirmOptions:
    """Return options with the default budget, unless the user sets one or the run is split over machines."""
    if options.budget is not None or options.answers is not None:
        return options
    files = {one.file.path for one in linted}
    return replace(options, budget=TimeBudget(_SECONDS_PER_FILE * max(1, len(files))))


def _search(folders: Iterable[Path], settings: Settings) -> tuple[Path, ...]:
    # Declared examples are imported from the configuration's own folder. If this is a package too, the code inside
    # still imports its packages from there, and one of them may have the folder's name.
    inside = (settings.root / "__init__.py").is_file()
    return tuple(dict.fromkeys([settings.root, *folders] if inside else [*folders, settings.root]))


def _importable(roots: Iterable[FunctionInfo]) -> Iterator[Target]:
    """Yield the roots that can be imported by name. A `forward` method is replaced by its class."""
    for function in roots:
        if function.owner is not None and function.name == "forward":
            yield from _named(function.owner)
        else:
            yield from _named(function)


def _heirs(analysis: Analysis) -> dict[Target, list[Target]]:
    """For each model, return the subclasses that inherit its compiled method but change code that it runs."""
    roots = set(analysis.roots)
    found: dict[Target, list[Target]] = {}
    for owner in dict.fromkeys(one.owner for one in analysis.functions if one.owner is not None):
        forward = analysis.project.find_method(owner, "forward") if "forward" not in owner.methods else None
        if forward in roots:
            for base in _importable([forward]):
                found.setdefault(base, []).extend(_named(owner))
    return found


def _named(code: FunctionInfo | ClassInfo) -> Iterator[Target]:
    """Yield the target for a function or class if it can be imported by name."""
    if code.file.path.suffix == SUFFIX:  # Notebooks are not run.
        return
    if code.parent is None and all(part.isidentifier() for part in code.qualname.split(".")):
        yield Target(code.file.path, code.module.name, code.qualname)


def _discovered(finding: Finding, files: dict[str, SourceFile], workspace: Workspace) -> Iterator[Linted]:
    """Yield a finding that was discovered by running code, if its code is enabled for the file and not silenced."""
    path = workspace.directory / finding.path
    if finding.code not in workspace.enabled(path) or (workspace.around and path not in workspace.files):
        return
    file = files.get(finding.path) or read_source(path)
    if suppressions_in(file, workspace).apply([finding], set()):
        yield Linted(replace(finding, url=catalogue()[finding.code].url), file)
