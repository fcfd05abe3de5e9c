"""The steps of a run: discover, lint, confirm. Both the command line and the Python API start here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

from dynalint.analysis import Analysis
from dynalint.analysis.events import CompilerUse
from dynalint.analysis.importers import Importers, outlines_of
from dynalint.analysis.source import SourceFile
from dynalint.findings import Finding, Fix
from dynalint.fix import Decider, FixOptions, FixResult, Keeper, Linted, View, Views, fix_findings, remembering
from dynalint.fix.follow_ups import is_part, whole_fixes
from dynalint.fix.settings import setting_line, with_settings
from dynalint.linting.lint import Linter, LintResult, unreadable
from dynalint.linting.positions import placed
from dynalint.profiling import charged, count
from dynalint.projects.related_files import Outlines, RelatedFiles, find_related
from dynalint.projects.workspace import Workspace, search_folders
from dynalint.rules import all_rules

# To find out what a rewrite leaves, its file is linted again, and if that is not enough, the files around it. That is
# only done if it means to lint less text than this, even where each file imports the whole project.
_MOST_TEXT = 32 << 20

_COMPILES = frozenset({"torch.compile", "torch.nn.Module.compile"})

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a run: the sorted findings with their files, including refuted findings.

    `failures` are sentences about errors in dynalint, each with the name of a file, and `notes` are other sentences.
    `interrupted` means that the user pressed Ctrl-C during confirmation, so some findings are not confirmed. `ran`
    means that code was run. `around` are the files around the checked files.
    """

    linted: tuple[Linted, ...]
    linter: Linter
    lint: LintResult
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    ran: bool = False
    around: RelatedFiles = field(default_factory=RelatedFiles)

    def reported(self, *, refuted: bool = False) -> tuple[Finding, ...]:
        """Return the findings to report. Findings that Dynamo refuted are included only if `refuted` is true."""
        findings = (placed(one.finding, one.file) for one in self.linted)
        return tuple(finding for finding in findings if refuted or finding.evidence.status != "refuted")

    @property
    def refuted(self) -> int:
        """The number of findings that Dynamo refuted."""
        return sum(one.finding.evidence.status == "refuted" for one in self.linted)

    @property
    def failures_in_fixes(self) -> tuple[str, ...]:
        """Sentences about errors that occurred so far while fixes were computed."""
        return tuple(self.lint.offers.failures)

    def fixes_so_far(self) -> tuple[tuple[Fix | None] | None, ...]:
        """Return the result of `Offers.so_far` for each finding in order."""
        known = [(one, self.lint.offers.so_far(one)) for one in self.linted]
        return tuple(fix and (placed(replace(one.finding, fix=fix[0]), one.file).fix,) for one, fix in known)

    def offered(self) -> Checked:
        """Return the same result with the rewrites for all findings, for `fix`."""
        linted = self.lint.offers.made(self.linted)
        return replace(self, linted=linted, failures=(*self.failures, *self.failures_in_fixes))

    def with_fixes(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return some of the reported findings with their fixes, or with the reasons why there are none."""
        known = {_key(placed(one.finding, one.file)): one for one in self.linted}
        findings = tuple(findings)
        made = self.lint.offers.shown((known[_key(finding)] for finding in findings), self._followed)
        pairs = zip(findings, made, strict=True)
        return tuple(replace(finding, fix=placed(one.finding, one.file).fix) for finding, one in pairs)

    def _followed(self, starts: Sequence[Linted]) -> Sequence[Fix | None]:
        with charged("following up fixes", whole=True):
            count("following up fixes", len(starts))
            return self._whole_fixes(starts)

    def _whole_fixes(self, starts: Sequence[Linted]) -> Sequence[Fix | None]:
        linted = self.lint.offers.made(self.lint.linted)
        parts = sum(is_part(one.rewrite) for one in linted)
        length = sum(len(file.text) for file in self.lint.analysis.files)
        views, wide = views_of(self), parts * length <= _MOST_TEXT

        def narrowest_first(path: Path) -> Iterator[View]:
            if views is not None:
                yield views.alone([path])
            if views is not None and wide:
                yield views.felt([path])
            if wide:
                yield View(self.linter)

        return whole_fixes(starts, linted, narrowest_first)

    def files(self) -> dict[str, SourceFile]:
        """Return all files with findings, keyed by the paths in the findings."""
        return {one.finding.path: one.file for one in self.linted}


def _key(finding: Finding) -> tuple[object, ...]:
    return finding.cell, *finding.sort_key


def check(workspace: Workspace, progress: Progress | None = None, *, fixable: bool = False) -> Checked:
    """Lint the files in a workspace, and confirm the findings if the settings allow it.

    If `fixable` is true, only findings that have a fix are confirmed, and no code is run for other findings. `progress`
    is called with the amount done, the total and a description. The call can come from any thread.
    """
    near = surroundings(workspace)
    workspace, notes = replace(workspace, around=near.files), near.notes
    linter = Linter(workspace, all_rules())
    result = linter.lint()
    notes = (*notes, *result.notes)
    if workspace.settings.confirm == "never":
        return Checked((*unreadable(workspace), *result.linted), linter, result, result.failures, notes, around=near)
    from dynalint.confirming import confirmed

    only = [one for one in result.offers.made(result.linted) if one.rewrite is not None] if fixable else None
    with charged("confirming", whole=True):
        ran = confirmed(workspace, result, progress, only)
    failures = (*result.failures, *ran.failures)
    judged = {one.finding.sort_key for one in ran.linted}
    others = (one for one in result.linted if fixable and one.finding.sort_key not in judged)
    linted = (*unreadable(workspace), *sorted((*ran.linted, *others), key=lambda one: one.finding.sort_key))
    return Checked(linted, linter, result, failures, (*notes, *ran.notes), ran.interrupted, ran.ran)


def in_project(workspace: Workspace) -> tuple[Workspace, tuple[str, ...]]:
    """Return a workspace that includes the project files that affect the checked files, and notes about them."""
    found = surroundings(workspace)
    return replace(workspace, around=found.files), found.notes


def surroundings(workspace: Workspace, known: Outlines | None = None) -> RelatedFiles:
    """Return the project files that affect the checked files. `known` are the outlines from earlier calls."""
    if workspace.is_whole:
        return RelatedFiles()
    search = search_folders(workspace.settings)
    with charged("finding related files"):
        found = find_related(workspace.files, workspace.configuration, search, workspace.texts, known)
        count("finding related files", len(found.files))
        return found


def fix(
    checked: Checked,
    *,
    verify: bool,
    unlikely: bool = False,
    progress: Progress | None = None,
    decide: Decider | None = None,
    keep: Keeper | None = None,
) -> tuple[FixResult, tuple[str, ...]]:
    """Fix findings in memory, given their fixes (see `offered`). Return the result, and sentences about failures.

    If `verify` is true and the settings allow running code, fixes are verified against the original. If the settings
    name a test command, they are also verified by the project's own tests. If `unlikely` is true, code that is rarely
    compiled is fixed too. `decide` is called for each fix before it is applied, and `keep` with the files after each
    applied fix.

    Raises:
        DynalintError: If the tests cannot be run.
    """
    workspace = checked.linter.workspace  # This includes the files around the checked files.
    runs = workspace.settings.confirm != "never" and any(one.rewrite for one in checked.linted)
    command = workspace.settings.test_command if runs else None
    if command is not None:
        decide, keep = decide and remembering(decide), None  # Do not write fixes that the tests may still reject.
    options = FixOptions(unsafe=workspace.settings.unsafe_fixes, unlikely=unlikely, decide=decide, keep=keep)
    fixed = partial(fix_findings, checked.linted, checked.linter, options, views=views_of(checked))
    if not runs or (not verify and command is None):
        return fixed(), ()
    from dynalint.confirm import WorkerError
    from dynalint.confirming import suite, verifier

    practical = workspace.settings.equivalence == "practical"
    tests = None if command is None else suite(workspace, checked.lint, checked.linted, command, progress)
    try:
        if tests is not None:
            tests.try_command()
        with verifier(workspace, checked.lint, progress, practical=practical) as run:
            compare = (run if tests is None else tests.remembering(run)) if verify else None
            result = fixed(verify=compare)
            return result if tests is None else tests.kept(result, lambda judge: fixed(verify=judge), compare), ()
    except WorkerError as fault:
        if tests is not None:
            raise
        return fixed(), (str(fault),)


def fix_settings(
    checked: Checked, *, unlikely: bool = False, keep: Keeper | None = None
) -> tuple[FixResult, tuple[str, ...]]:
    """In files that call `torch.compile`, turn on the settings that let Dynamo trace flagged lines without changes.

    Nothing else is rewritten, and nothing is run, because these settings do not affect eager code. See `fix` for the
    other arguments and the result.
    """
    linter = checked.linter
    shown = linter.workspace.shown

    def lint(texts: Mapping[Path, str]) -> tuple[Linted, ...]:
        result = linter.lint(texts)
        return with_settings(result.linted, _compiling(result.analysis), lambda file: shown(file.path))

    files = _compiling(checked.lint.analysis)
    linted = with_settings(checked.linted, files, lambda file: shown(file.path))
    result = fix_findings(linted, lint, FixOptions(unsafe=True, unlikely=unlikely, keep=keep))
    lines = sorted({f"`{setting_line(one.finding.setting)}`" for one in linted if one.finding.setting})
    if not lines or any(one.rewrite is not None for one in linted):
        return result, ()
    importing = "the files that call `torch.compile` do not import torch at their top level"
    why = importing if files else "no file calls `torch.compile`"
    note = f"{why}: write {' and '.join(lines)} before you call it"
    return replace(result, notes=(note,)), ()


def _compiling(analysis: Analysis) -> tuple[SourceFile, ...]:
    """Return the files that compile a function or a module."""
    uses = (event for event in analysis.events if isinstance(event, CompilerUse) and event.name in _COMPILES)
    return tuple(dict.fromkeys(event.function.file for event in uses))


def views_of(checked: Checked) -> Views | None:
    """Return the views that show which files a fix may affect, or None if there is only one file."""
    everything = frozenset(checked.linter.workspace.analysed)
    if len(everything) == 1:
        return None
    importers = cache(lambda: Importers(outlines_of(checked.lint.analysis.project)))

    def alone(paths: Collection[Path]) -> View:
        return View(checked.linter.narrowed(paths), frozenset(paths))

    def felt(paths: Collection[Path]) -> View:
        # If a base class method calls the changed code through `self`, the method's file does not import the changed
        # file.
        changed = (function for function in checked.lint.analysis.functions if function.file.path in paths)
        callers = {caller.file.path for function in changed for caller in function.leading_here}
        files = (importers().reached(paths) | callers) & everything
        return alone(files) if len(files) * 2 < len(everything) else View(checked.linter)

    return Views(felt, alone)
