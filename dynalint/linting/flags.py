"""Turn events into flags: ask the rules that watch an event, and drop flags that something else rules out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from dynalint.analysis import Analysis, steps
from dynalint.analysis.events import Call, Cause, Event, InstalledCall, Read, Write
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.functions import DISABLED
from dynalint.analysis.given_up import find_stranded, runs_always
from dynalint.analysis.installed import CALL, FollowedCall, Installed
from dynalint.analysis.project import Project
from dynalint.analysis.source import SourceFile
from dynalint.analysis.steps import Budgets
from dynalint.linting.provisos import PossibleEnds, provisos
from dynalint.linting.remainders import is_left_over
from dynalint.profiling import charged
from dynalint.rulebook.releases import holds
from dynalint.rules import Flag, Rule

_OTHER_CALLERS = "other callers of the compiled code pass a plain number instead of the tensor"


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
        self._interested: dict[tuple[type[Event], str], tuple[Rule, ...]] = {}
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

    def interested(self, event: Event) -> Sequence[Rule]:
        """Return the rules that watch an event, without duplicates."""
        kind = type(event)
        if not isinstance(event, Call | Read | Write):
            return self._by_event.get(kind, ())
        name = event.callee if isinstance(event, Call) else event.name
        known = self._interested.get((kind, name))
        if known is None:
            rules = dict.fromkeys(rule for rule in self._watching(name) if kind in rule.events)
            known = self._interested[kind, name] = tuple(rules)
        return known

    def _watching(self, name: str) -> tuple[Rule, ...]:
        known = self._known.get(name)
        if known is None:
            below = (rules for prefix, rules in self._by_prefix.items() if name.startswith(prefix))
            known = self._known[name] = (*self._by_call.get(name, ()), *(rule for rules in below for rule in rules))
        return known


def find(
    analysis: Analysis | FollowedCall,
    rules: RuleSet,
    wanted: Callable[[Rule, SourceFile], bool],
    failed: Callable[[Rule, Event, Exception], None],
    cause: Callable[[InstalledCall], Cause | None] | None = None,
) -> Iterator[Flag]:
    """Yield the rules' findings, event by event. If a rule fails on an event, only its answer to this event is lost.

    `cause` says why a call into an installed package breaks the graph.
    """
    budgets = Budgets(steps.MOST_STEPS)  # Even where the analysis used up its budget, rules still run.
    for one in analysis.events:
        budget = budgets.of(one.function.file)
        for rule in rules.interested(one):
            if not wanted(rule, one.function.file):
                continue
            event = replace(one, cause=cause(one)) if cause is not None and isinstance(one, InstalledCall) else one
            try:
                with charged(rule=rule.code), budget.spending():
                    violations = [one for one in rule.check(event, analysis.project) if holds(one.torch, rules.release)]
                    if not violations:
                        continue
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
    known, skipped = provisos([flag.event for flag in breaks], refused, project)
    sure = [flag.event for flag in breaks if flag.event not in known]
    ends = PossibleEnds((flag.event for flag in flags if flag.category == "graph-break"), refused, project)
    for flag in flags:
        if _is_about_guards(flag):
            event = flag.event
            if event in skipped or is_left_over(event, sure, ends.of(event.function), project):
                continue  # perhaps nothing that reads this is compiled
            if ends.may_have_no_graph(event.function):
                continue
        open_ = flag.category == "graph-break" and not flag.proviso and flag.event in known
        yield replace(flag, proviso=known[flag.event]) if open_ else flag
    other = [flag.event for flag in flags if flag.category == "graph-break"]
    comprehensions = find_stranded({flag.event: flag.violation.node for flag in stranded}, sure, other, project)
    yield from (flag for flag in stranded if flag.event in comprehensions)


def _is_about_guards(flag: Flag) -> bool:
    """Return whether a flag is about a recompilation, or the advice that a call may cause one."""
    called = flag.category == "advice" and isinstance(flag.event, Call) and not flag.rule.gb
    return called or flag.category == "recompile"


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


class Causes:
    """The graph breaks that calls into installed packages always reach, as judged by the rules."""

    def __init__(self, installed: Installed, rules: RuleSet) -> None:
        self._installed, self._rules = installed, rules
        self._known: dict[FollowedCall, Cause | None] = {}
        self._cut: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence about the calls whose code could not be analysed completely, if there are any."""
        names = ", ".join(sorted(self._cut))
        return (
            (f"The code of {names} could not be analysed completely, so graph breaks in it may have been missed.",)
            if names
            else ()
        )

    def of(self, call: InstalledCall) -> Cause | None:
        """Return the first certain graph break in the code that a call reaches, or None."""
        inside = self._installed.follow(call)
        if inside is None:
            return None
        if inside.cut:
            self._cut[call.callee.removesuffix(".__call__")] = None
        if inside not in self._known:
            self._known[inside] = self._first(inside)
        return self._known[inside]

    def _first(self, inside: FollowedCall) -> Cause | None:
        if inside.extension is not None:
            return Cause(self._installed.shown(inside.extension), "", ("GB0007", "GB0147", "GB0156"))
        flags = qualified(list(find(inside, self._rules, _any_rule, _ignored, self.of)), inside.project)
        certain = [flag for flag in flags if _breaks(flag) and not flag.proviso]
        order = {event.node: index for index, event in enumerate(inside.events)}
        first = min(certain, key=lambda flag: order[flag.event.node], default=None)
        if first is None:
            return None
        path, violation = first.event.function.file.path, first.violation
        place = "" if path == CALL else f"{self._installed.shown(path)}:{first.event.node.lineno}"
        return Cause(place, violation.message, violation.gb or first.rule.gb, violation.setting)


def _breaks(flag: Flag) -> bool:
    """Return whether a flag is about a graph break. This includes explicit breaks, which the user did not choose."""
    return flag.category == "graph-break" or (isinstance(flag.event, Call) and flag.event.callee == DISABLED)


def _any_rule(rule: Rule, file: SourceFile) -> bool:
    return True


def _ignored(rule: Rule, event: Event, fault: Exception) -> None:
    """Ignore the failure of a rule on installed code, because the user cannot change that code."""
