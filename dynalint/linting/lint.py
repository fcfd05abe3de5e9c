"""Static checking: analysis, rules, selection and suppressions, without running code."""

from __future__ import annotations

import ast
import platform
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dynalint.adoption.ignore_comments import UNUSED_CODE, Suppression, Suppressions, read_suppressions, unused
from dynalint.analysis import Analysis, AnalysisOptions, analyze, revise
from dynalint.analysis.events import Event
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.run import with_deep_stack
from dynalint.analysis.source import SourceFile, Sources
from dynalint.analysis.steps import Exhausted
from dynalint.config import OPTIONS, Settings
from dynalint.findings import Finding, Step, as_advice, as_name, as_sentence
from dynalint.fix import Linted
from dynalint.linting.costs import Costs
from dynalint.linting.flags import Causes, RuleSet, find, qualified
from dynalint.linting.offers import Answer, Offers
from dynalint.linting.roots import complaints
from dynalint.profiling import charged, count
from dynalint.projects.environments import package_folders, release_for
from dynalint.projects.workspace import Workspace, search_folders
from dynalint.rulebook.catalogue import catalogue
from dynalint.rules import Flag, Rewrite, Rule

SYNTAX_CODE = "DYN901"
_PYTHON = ".".join(platform.python_version_tuple()[:2])
_NEWER = f"dynalint runs on Python {_PYTHON}; if the code needs a newer one, run dynalint on that"


@dataclass(frozen=True, slots=True)
class LintResult:
    """The sorted findings and the data that they are based on. `offers` computes their fixes on demand.

    `silenced` are findings that are silenced by a comment or whose code is not selected. Confirmation needs them so
    that it does not report the same breaks as newly discovered. `failures` are sentences about errors in dynalint, each
    with the name of the file. `crashed` is true if an exception was raised, and false if only a limit was reached.
    `notes` are sentences about what was left out.
    """

    linted: tuple[Linted, ...]
    silenced: tuple[Linted, ...]
    analysis: Analysis
    failures: tuple[str, ...]
    offers: Offers
    crashed: bool = False
    notes: tuple[str, ...] = ()


class Linter:
    """Lints the files in a workspace as one project. It can be called repeatedly with different texts."""

    def __init__(self, workspace: Workspace, rules: Sequence[Rule], sources: Sources | None = None) -> None:
        self.workspace = workspace
        self._rules = RuleSet(rules, release_for(workspace.settings))
        self._sources = sources or Sources()
        self._latest: tuple[Analysis, Causes] | None = None
        settings = workspace.settings
        self._read_options = _ReadOptions(settings)
        self._options = AnalysisOptions(
            roots=settings.roots,
            search=search_folders(settings),
            packages=package_folders(settings),
            rule_options=self._read_options,
        )

    @property
    def options_read(self) -> dict[str, str]:
        """The options that rules have read so far, with their values as text."""
        return dict(self._read_options.read)

    def narrowed(self, files: Collection[Path]) -> Linter:
        """Return a linter for some of the files. It shares parsed files with this linter."""
        kept, around = (
            tuple(path for path in some if path in files) for some in (self.workspace.files, self.workspace.around)
        )
        narrow = copy(self)
        narrow.workspace = replace(self.workspace, files=kept, around=around)
        narrow._latest = None  # noqa: SLF001 - it is another linter of this class
        return narrow

    def resumed(self, texts: Mapping[Path, str]) -> Linter:
        """Return a linter for the same files with other texts, which takes over this linter's last analysis."""
        other = copy(self)
        other.workspace, self._latest = replace(self.workspace, texts=texts), None
        return other

    def __call__(self, texts: Mapping[Path, str]) -> tuple[Linted, ...]:
        """Lint with some texts replaced and compute all fixes. This is the interface that `fix` uses."""
        result = self.lint(texts)
        return result.offers.made(result.linted)

    def lint(self, texts: Mapping[Path, str] | None = None) -> LintResult:
        """Lint the files. `texts` replaces the contents of some files, given by absolute path."""
        return self._judged(*self._analysed(texts or {}))

    def relint(self, texts: Mapping[Path, str]) -> LintResult:
        """Lint the files like `lint`, but if possible, only analyse what has changed since the last call.

        It assumes that the files on disk have not changed. The results of earlier calls must not be used any more.
        """
        latest, self._latest = self._latest, None
        analysis = None if latest is None else revise(latest[0], {**self.workspace.texts, **texts})
        self._latest = self._analysed(texts) if latest is None or analysis is None else (analysis, latest[1])
        return self._judged(*self._latest)

    def _analysed(self, texts: Mapping[Path, str]) -> tuple[Analysis, Causes]:
        analysis = analyze(
            self.workspace.analysed,
            self._options,
            overrides={**self.workspace.texts, **texts},
            watched=self._rules.watched,
            sources=self._sources,
        )
        return analysis, Causes(analysis.installed, self._rules)

    def _judged(self, analysis: Analysis, causes: Causes) -> LintResult:
        with charged("rules"):
            result = with_deep_stack(lambda: _Pass(self.workspace, self._rules, analysis, causes).result())
            count("rules", len(result.linted))
            return result


class _ReadOptions(Mapping[str, object]):
    """The options in the settings. `read` contains the options that were read, because the result depends on them."""

    def __init__(self, settings: Settings) -> None:
        self.read: dict[str, str] = {}
        self._settings = settings

    def __getitem__(self, key: str) -> object:
        if key not in OPTIONS:
            raise KeyError(key)
        value = self._settings.value(key)
        self.read[key] = repr(value)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(OPTIONS)

    def __len__(self) -> int:
        return len(OPTIONS)


class _Pass:
    """A pass over all files that turns events into findings and keeps the ones that are selected and not silenced."""

    def __init__(self, workspace: Workspace, rules: RuleSet, analysis: Analysis, causes: Causes) -> None:
        self._workspace, self._rules, self._analysis, self._causes = workspace, rules, analysis, causes
        self._named = frozenset(workspace.files)
        self._enabled = {file.path: workspace.enabled(file.path) for file in analysis.files}
        self._silenced: list[Linted] = []
        self._answers: dict[object, Answer] = {}
        self._statements: dict[object, list[Linted]] = {}
        self._costs = Costs(analysis.project)
        self._crashed = any(failure.crashed for failure in analysis.failures)
        self._failures = [
            f"{workspace.shown(failure.path)}: cannot analyse {failure.function}: {failure.fault}"
            for failure in analysis.failures
            if failure.path in self._named
        ]
        self._failures += complaints(workspace.settings, analysis)

    def result(self) -> LintResult:
        flags: dict[Path, list[Flag]] = defaultdict(list)
        found = find(self._analysis, self._rules, self._wanted, self._failed, self._causes.of)
        for flag in qualified(list(found), self._analysis.project):
            flags[flag.event.function.file.path].append(flag)
        named = [file for file in self._analysis.files if file.path in self._named]
        linted = [one for file in named for one in self._file(file, flags[file.path])]
        linted.sort(key=lambda one: one.finding.sort_key)
        exhausted = self._analysis.budgets.failures(self._named, self._workspace.shown)
        failures = tuple(dict.fromkeys([*self._failures, *exhausted]))
        silenced = tuple(self._silenced)
        offers = Offers(self._workspace.shown, self._workspace.fixable, self._answers, self._statements)
        return LintResult(
            tuple(linted),
            silenced,
            self._analysis,
            failures,
            offers,
            crashed=self._crashed,
            notes=(*self._causes.notes, *self._analysis.budgets.notes(self._named, self._workspace.shown)),
        )

    def _file(self, file: SourceFile, flags: Sequence[Flag]) -> Iterator[Linted]:
        shown, enabled = self._workspace.shown(file.path), self._enabled[file.path]
        if file.error is not None:
            yield from _syntax_error(file, shown, enabled)
            return
        suppressions = suppressions_in(file, self._workspace, found=bool(flags))
        found = {finding.sort_key: (finding, flag) for flag in flags for finding in [self._finding(flag, shown)]}
        used: set[tuple[Suppression, str]] = set()
        selected = [finding for finding, _ in found.values() if finding.code in enabled]
        kept = {finding.sort_key: finding for finding in suppressions.apply(selected, used)}
        for key, (finding, flag) in found.items():
            if key not in kept:
                self._silenced.append(Linted(finding, file, conditional=bool(flag.proviso)))
        breaks: dict[int, list[Linted]] = defaultdict(list)
        for key, finding in kept.items():
            flag = found[key][1]
            self._answers[key] = partial(flag.rule.offer, flag.event, flag.violation, self._analysis.project)
            linted = Linted(_with_url(finding), file, conditional=bool(flag.proviso))
            if finding.category == "graph-break":
                self._statements[key] = breaks[id(flag.event.statement)]
                breaks[id(flag.event.statement)].append(linted)
            yield linted
        if UNUSED_CODE in enabled:
            ran = self._rules.codes | {SYNTAX_CODE, UNUSED_CODE}
            dead = list(unused(suppressions, file, shown, used, ran & enabled, catalogue()))
            self._answers.update({finding.sort_key: partial(_same, rewrite) for finding, rewrite in dead})
            for finding in suppressions.apply([finding for finding, _ in dead], used):
                yield Linted(_with_url(finding), file)

    def _finding(self, flag: Flag, shown: str) -> Finding:
        rule, event, violation = flag.rule, flag.event, flag.violation
        start, end = _range(event.function.file, violation.node)
        return Finding(
            shown,
            *event.function.file.position(start),
            *event.function.file.position(end),
            code=rule.code,
            name=rule.name,
            category="advice" if flag.proviso else flag.category,
            severity="info" if flag.proviso else violation.severity or rule.severity,
            message=as_sentence(f"{violation.message}; {flag.proviso}" if flag.proviso else violation.message),
            help=as_advice(violation.help or rule.help),
            function=as_name(event.function.qualname),
            region=tuple(map(as_name, event.function.chain)),
            steps=tuple(self._step(function) for function in event.function.callers),
            gb=violation.gb or (() if violation.category == "miscompile" else rule.gb),
            doubt=as_sentence(event.function.doubt),
            setting="" if flag.proviso else violation.setting,
            cost=self._costs.of(flag),
            inside=violation.inside,
        )

    def _step(self, function: FunctionInfo) -> Step:
        return Step(as_name(function.qualname), self._workspace.shown(function.file.path), function.node.lineno)

    def _wanted(self, rule: Rule, file: SourceFile) -> bool:
        return rule.code in self._enabled[file.path] or self._workspace.settings.confirm != "never"

    def _failed(self, rule: Rule, event: Event, fault: Exception) -> None:
        if isinstance(fault, Exhausted):
            self._analysis.budgets.leave_out(event.function.file, event.function)
            return
        self._crashed = True
        if event.function.file.path in self._named:
            place = f"{self._workspace.shown(event.function.file.path)}:{event.node.lineno}"
            self._failures.append(f"{place}: {rule.code} failed: {type(fault).__name__}: {fault}")


def suppressions_in(file: SourceFile, workspace: Workspace, *, found: bool = True) -> Suppressions:
    """Return the ignore comments that apply to a file. See `read_suppressions` for the other arguments."""
    return Suppressions() if workspace.ignore_suppressions else read_suppressions(file, found=found)


def _range(file: SourceFile, node: ast.expr | ast.stmt) -> tuple[int, int]:
    """Return a node's offsets. If it is a compound statement, this is the first line of its header."""
    start, end = file.span(node)
    if not isinstance(node, ast.stmt) or not hasattr(node, "body"):
        return start, end
    rest = file.line(node.lineno)[file.position(start)[1] - 1 :]
    return start, min(end, start + len(rest.rstrip()))


def unreadable(workspace: Workspace) -> Iterator[Linted]:
    """Yield the finding for text that could not be decoded, if there is any."""
    file = workspace.unreadable
    if file is not None:
        yield from _syntax_error(file, workspace.shown(file.path), workspace.enabled(file.path))


def _syntax_error(file: SourceFile, shown: str, enabled: Collection[str]) -> Iterator[Linted]:
    fault = file.error
    if fault is None or SYNTAX_CODE not in enabled:
        return
    entry = catalogue()[SYNTAX_CODE]
    finding = Finding(
        shown,
        fault.line,
        fault.column,
        fault.line,
        fault.column + 1,
        code=entry.code,
        name=entry.name,
        category=entry.category,
        severity=entry.severity,
        message=as_sentence(" ".join(fault.message.split())),
        help=_NEWER,
        url=entry.url,
    )
    yield Linted(finding, file)


def _with_url(finding: Finding) -> Finding:
    return replace(finding, url=catalogue()[finding.code].url)


def _same(rewrite: Rewrite | None) -> Rewrite | None:
    return rewrite
