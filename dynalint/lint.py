"""Static checking: analysis, rules, selection and suppressions, without running code."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dynalint.analysis import Analysis, AnalysisOptions, analyze, steps
from dynalint.analysis.events import Call, Event, Read, Write
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.given_up import find_stranded, runs_always
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.project import Project
from dynalint.analysis.run import with_deep_stack
from dynalint.analysis.source import SourceFile, Sources
from dynalint.analysis.steps import Budgets, Exhausted
from dynalint.catalogue import catalogue
from dynalint.config import OPTIONS, Settings
from dynalint.costs import Costs
from dynalint.environments import release_for
from dynalint.findings import Finding, Step, as_name, as_sentence
from dynalint.fix import Linted
from dynalint.offers import Answer, Offers
from dynalint.provisos import provisos
from dynalint.releases import holds
from dynalint.roots import complaints
from dynalint.rules import Flag, Rewrite, Rule
from dynalint.suppress import UNUSED_CODE, Suppression, Suppressions, read_suppressions, unused
from dynalint.workspace import Workspace, search_folders

SYNTAX_CODE = "DYN901"

_OTHER_CALLERS = "other callers of the compiled code pass a plain number instead of the tensor"


@dataclass(frozen=True, slots=True)
class LintResult:
    """The sorted findings and the data that they are based on. `offers` computes their fixes on demand.

    `silenced` are findings that are silenced by a comment or whose code is not selected. Confirmation needs them so
    that it does not report the same breaks as newly discovered. `failures` are sentences about errors in dynalint, each
    with the name of the file. `crashed` is true if an exception was raised, and false if only a limit was reached.
    """

    linted: tuple[Linted, ...]
    silenced: tuple[Linted, ...]
    analysis: Analysis
    failures: tuple[str, ...]
    offers: Offers
    crashed: bool = False


class RuleSet:
    """The rules that apply to a torch release, indexed by the events and calls that they watch."""

    def __init__(self, rules: Iterable[Rule], release: str | None) -> None:
        self.release = release
        rules = [rule for rule in rules if holds(rule.torch, release)]
        self.codes = frozenset(rule.code for rule in rules)
        self._by_event: dict[type[Event], list[Rule]] = defaultdict(list)
        self._by_call: dict[str, list[Rule]] = defaultdict(list)
        self._by_prefix: dict[str, list[Rule]] = defaultdict(list)
        self._known: dict[str, tuple[Rule, ...]] = {}
        for rule in rules:
            for kind in rule.events:
                self._by_event[kind].append(rule)
            for name in rule.calls:
                if name.endswith(".*"):
                    self._by_prefix[name[:-1]].append(rule)
                else:
                    self._by_call[name].append(rule)

    def watched(self, callee: str) -> str | None:
        """Return `callee` if any rule watches it, either as a call or as an attribute that is read or written."""
        return callee if self._watching(callee) else None

    def interested(self, event: Event) -> Iterator[Rule]:
        """Yield the rules that watch an event, without duplicates."""
        if isinstance(event, Call | Read | Write):
            name = event.callee if isinstance(event, Call) else event.name
            yield from dict.fromkeys(rule for rule in self._watching(name) if type(event) in rule.events)
        else:
            yield from self._by_event.get(type(event), ())

    def _watching(self, name: str) -> tuple[Rule, ...]:
        known = self._known.get(name)
        if known is None:
            below = (rules for prefix, rules in self._by_prefix.items() if name.startswith(prefix))
            known = self._known[name] = (*self._by_call.get(name, ()), *(rule for rules in below for rule in rules))
        return known


def find(
    analysis: Analysis,
    rules: RuleSet,
    wanted: Callable[[Rule, SourceFile], bool],
    failed: Callable[[Rule, Event, Exception], None],
) -> Iterator[Flag]:
    """Yield the rules' findings, event by event. If a rule fails on an event, only its answer to this event is lost."""
    budgets = Budgets(steps.MOST_STEPS)  # Even where the analysis used up its budget, rules still run.
    for event in analysis.events:
        for rule in rules.interested(event):
            if not wanted(rule, event.function.file):
                continue
            try:
                with budgets.of(event.function.file).spending():
                    violations = [one for one in rule.check(event, analysis.project) if holds(one.torch, rules.release)]
                    others = (other is not None and any(rule.check(other, analysis.project)) for other in event.others)
                    always = all(others)
            except Exception as fault:  # noqa: BLE001 - any failure only costs this rule's answer
                failed(rule, event, fault)
                continue
            proviso = "" if always else _OTHER_CALLERS
            flags = [Flag(rule, event, violation, proviso) for violation in violations]
            if any(flag.category == "recompile" for flag in flags) and leads_to_raise(event, analysis.project):
                continue  # A call that raises does not compile anything that later calls would have to recompile.
            yield from flags


def qualified(flags: Sequence[Flag], project: Project) -> Iterator[Flag]:
    """Yield the flags that nothing else rules out. Uncertain graph breaks get a proviso."""
    stranded = [flag for flag in flags if flag.violation.stranded]
    flags = _caused([flag for flag in flags if not flag.violation.stranded], project)
    breaks = [flag for flag in flags if flag.category == "graph-break" and not flag.proviso]
    refused = {one.event for one in breaks if one.refused}
    known = provisos([flag.event for flag in breaks], refused, project)
    for flag in flags:
        open_ = flag.category == "graph-break" and not flag.proviso and flag.event in known
        yield replace(flag, proviso=known[flag.event]) if open_ else flag
    certain = [flag.event for flag in breaks if flag.event not in known]
    other = [flag.event for flag in flags if flag.category == "graph-break"]
    comprehensions = find_stranded({flag.event: flag.violation.node for flag in stranded}, certain, other, project)
    yield from (flag for flag in stranded if flag.event in comprehensions)


def _caused(flags: Sequence[Flag], project: Project) -> Sequence[Flag]:
    """Return the flags, except those that depend on a graph break in another function if it has no graph break."""
    if not any(flag.violation.within for flag in flags):
        return flags
    breaking = {
        flag.event.function
        for flag in flags
        if flag.category == "graph-break" and not flag.violation.within and not flag.proviso
        if runs_always(flag.event, project)
    }
    return [flag for flag in flags if not flag.violation.within or not breaking.isdisjoint(flag.violation.within)]


class Linter:
    """Lints the files in a workspace as one project. It can be called repeatedly with different texts."""

    def __init__(self, workspace: Workspace, rules: Sequence[Rule], sources: Sources | None = None) -> None:
        self.workspace = workspace
        self._rules = RuleSet(rules, release_for(workspace.settings))
        self._sources = sources or Sources()
        settings = workspace.settings
        self._read_options = _ReadOptions(settings)
        self._options = AnalysisOptions(
            roots=settings.roots,
            search=search_folders(settings),
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
        return narrow

    def __call__(self, texts: Mapping[Path, str]) -> tuple[Linted, ...]:
        """Lint with some texts replaced and compute all fixes. This is the interface that `fix` uses."""
        result = self.lint(texts)
        return result.offers.made(result.linted)

    def lint(self, texts: Mapping[Path, str] | None = None) -> LintResult:
        """Lint the files. `texts` replaces the contents of some files, given by absolute path."""
        overrides = {**self.workspace.texts, **(texts or {})}
        analysis = analyze(
            self.workspace.analysed,
            self._options,
            overrides=overrides,
            watched=self._rules.watched,
            sources=self._sources,
        )
        return with_deep_stack(lambda: _Pass(self.workspace, self._rules, analysis).result())


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

    def __init__(self, workspace: Workspace, rules: RuleSet, analysis: Analysis) -> None:
        self._workspace, self._rules, self._analysis = workspace, rules, analysis
        self._named = frozenset(workspace.files)
        self._enabled = {file.path: workspace.enabled(file.path) for file in analysis.files}
        self._silenced: list[Linted] = []
        self._answers: dict[object, Answer] = {}
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
        found = find(self._analysis, self._rules, self._wanted, self._failed)
        for flag in qualified(list(found), self._analysis.project):
            flags[flag.event.function.file.path].append(flag)
        named = [file for file in self._analysis.files if file.path in self._named]
        linted = [one for file in named for one in self._file(file, flags[file.path])]
        linted.sort(key=lambda one: one.finding.sort_key)
        exhausted = self._analysis.budgets.failures(self._named, self._workspace.shown)
        failures = tuple(dict.fromkeys([*self._failures, *exhausted]))
        silenced = tuple(self._silenced)
        offers = Offers(self._workspace.shown, self._workspace.fixable, self._answers)
        crashed = self._crashed
        return LintResult(tuple(linted), silenced, self._analysis, failures, offers, crashed)

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
        for key, finding in kept.items():
            flag = found[key][1]
            self._answers[key] = partial(flag.rule.offer, flag.event, flag.violation, self._analysis.project)
            yield Linted(_with_url(finding), file, conditional=bool(flag.proviso))
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
            help=as_sentence(violation.help or rule.help),
            function=as_name(event.function.qualname),
            region=tuple(map(as_name, event.function.chain)),
            steps=tuple(self._step(function) for function in event.function.callers),
            gb=violation.gb or rule.gb,
            doubt=as_sentence(event.function.doubt),
            setting="" if flag.proviso else violation.setting,
            cost=self._costs.of(flag),
        )

    def _step(self, function: FunctionInfo) -> Step:
        return Step(as_name(function.qualname), self._workspace.shown(function.file.path), function.node.lineno)

    def _wanted(self, rule: Rule, file: SourceFile) -> bool:
        return rule.code in self._enabled[file.path] or self._workspace.settings.confirm != "never"

    def _failed(self, rule: Rule, event: Event, fault: Exception) -> None:
        if isinstance(fault, Exhausted):
            self._analysis.budgets.leave_out(event.function)
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
        url=entry.url,
    )
    yield Linted(finding, file)


def _with_url(finding: Finding) -> Finding:
    return replace(finding, url=catalogue()[finding.code].url)


def _same(rewrite: Rewrite | None) -> Rewrite | None:
    return rewrite
