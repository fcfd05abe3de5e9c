"""Find the conditions under which a graph break happens when its line runs.

A break is uncertain if Python may skip the rest of the statement after an operand, if a value is a tensor only on some
paths, or if another break comes first. Dynamo cannot resume after most breaks inside loops, or after breaks that it
rejects immediately. It then gives up on the function and runs it in eager mode, so later code in that function is not
traced and does not break. Before Python 3.12, a comprehension is a separate function. If it reads a tensor or module
from outside, Dynamo compiles it separately.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

from dynalint.analysis.comprehensions import COMPREHENSIONS, Comprehension, sees_tensor
from dynalint.analysis.events import Branch, Event
from dynalint.analysis.exits import is_passed_by_all
from dynalint.analysis.given_up import (
    Parents,
    Way,
    ancestors,
    calls_in_loops,
    ends_function,
    is_in_own_context,
    is_scripted,
    runs_always,
    way,
)
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.kinds import Unknown, only_tensor
from dynalint.analysis.project import Project
from dynalint.analysis.source import quote


def provisos(
    events: Sequence[Event], refused: Collection[Event], project: Project
) -> tuple[dict[Event, str], Collection[Event]]:
    """Return the conditions for the uncertain graph breaks among `events`. Each condition is the end of a sentence.

    Dynamo never resumes after the events in `refused`. The second result holds the events that it never reaches.
    """
    found: dict[Event, str] = {}
    skipped: set[Event] = set()
    certain: dict[FunctionInfo, list[Event]] = defaultdict(list)
    for event in events:
        if isinstance(event.node, ast.Call) and event.condition is event.node.func:
            found[event] = f"{quote(event.function.file, event.node.func)} may refer to something else on other paths"
        elif event.condition is not None and not is_passed_by_all(event, project):
            found[event] = f"Python only reaches this if it gets past {quote(event.function.file, event.condition)}"
        elif isinstance(event, Branch) and only_tensor(event.kind) is None:
            found[event] = "it is a plain Python value on other paths to this line"
        else:
            certain[event.function].append(event)
    breaking = {event.function for own in certain.values() for event in own if runs_always(event, project)}
    for function, own in certain.items():
        ending = _ending(function, own, refused, breaking, project)
        for event, other, always in _hidden(own, ending, project):
            line = other.node.lineno
            skipped |= {event} if always else set()
            found[event] = (
                f"the whole function currently runs in eager mode because of line {line}, so this is the next break"
                if always
                else f"if line {line} runs, the whole function runs in eager mode; otherwise, the graph breaks here"
            )
    return found, skipped


class PossibleEnds:
    """The graph breaks, certain or not, that may make Dynamo run a function in eager mode."""

    def __init__(self, events: Iterable[Event], refused: Collection[Event], project: Project) -> None:
        self._refused, self._project = refused, project
        self._breaks: dict[FunctionInfo, list[Event]] = defaultdict(list)
        for event in events:
            self._breaks[event.function].append(event)
        self._known: dict[FunctionInfo, Collection[Event]] = {}

    def of(self, function: FunctionInfo) -> Collection[Event]:
        """Return the breaks in a function after which Dynamo may skip it."""
        if function not in self._known:
            own, project = self._breaks.get(function, ()), self._project
            self._known[function] = _ending(function, own, self._refused, self._breaking, project)
        return self._known[function]

    def may_have_no_graph(self, function: FunctionInfo, seen: frozenset[FunctionInfo] = frozenset()) -> bool:
        """Return whether Dynamo may compile a function by itself, and finds no tensor operation for a graph in it.

        Calls of unknown functions may break the graph, and methods of plain objects without tensors are often called
        beside code that Dynamo does not trace, such as file access.
        """
        if function.caller is None or _has_operation(function, self._project):
            return False
        plain = function.owner is not None and not self._project.is_module_class(function.owner)
        if plain and any(_calls_unknown(one, self._project) for one in function.callers):
            return True
        callers = function.called_by.keys() - {function, *seen}
        return all(self.of(caller) or self.may_have_no_graph(caller, seen | {function}) for caller in callers)

    @cached_property
    def _breaking(self) -> Collection[FunctionInfo]:
        """The functions that contain a break, or that call one that does."""
        callers: dict[FunctionInfo, set[FunctionInfo]] = defaultdict(set)
        interpreter = self._project.interpreter
        for function, contexts in interpreter.contexts.items() if interpreter is not None else ():
            for callee in (callee.function for context in contexts for callee in context.callees):
                callers[callee].add(function)
        found = dict.fromkeys(self._breaks)
        waiting = [*found]
        while waiting:
            new = callers[waiting.pop()] - found.keys()
            found.update(dict.fromkeys(new))
            waiting += new
        return found.keys()


def _has_operation(function: FunctionInfo, project: Project) -> bool:
    """Return whether a function computes with tensors, rather than with arrays, numbers and objects."""
    found = (kind for node, kind in project.kinds(function).items() if isinstance(node, ast.Call | ast.BinOp))
    return any(tensor is not None and not tensor.array for tensor in map(only_tensor, found))


def _calls_unknown(function: FunctionInfo, project: Project) -> bool:
    kinds = project.kinds(function)
    return any(isinstance(node, ast.Call) and isinstance(kinds.get(node.func), Unknown) for node in kinds)


def _ending(
    function: FunctionInfo,
    events: Sequence[Event],
    refused: Collection[Event],
    breaking: Collection[FunctionInfo],
    project: Project,
) -> list[Event]:
    """Return the breaks that make Dynamo give up on a function: its own, and calls in loops to functions that break."""
    parents = project.parents(function)
    scripted = is_scripted(function)
    own = [
        event
        for event in events
        if scripted or event in refused or ends_function(event, parents) or is_in_own_context(event, project)
    ]
    return sorted([*own, *calls_in_loops(function, breaking, project)], key=_place)


def _place(event: Event) -> tuple[int, int]:
    return event.node.lineno, event.node.col_offset


def _hidden(events: Sequence[Event], ending: Sequence[Event], project: Project) -> list[tuple[Event, Event, bool]]:
    """Return the events in a function that Dynamo does not reach, each with the earlier break that causes this.

    The third item indicates whether every run reaches that break first, or only runs with an optional argument.
    """
    pairs = []
    parents = project.parents(events[0].function)
    ends = [(one, way(one.node, parents)) for one in ending]
    ends += _in_both_arms(ends)
    for event in sorted(events, key=_place):
        comprehension = _comprehension(event, parents)
        if comprehension is not None and sees_tensor(comprehension, event.function, project):
            continue
        own = way(event.node, parents)
        before = [(one, other) for one, other in ends if one.statement.lineno < event.statement.lineno]
        always = next((one for one, other in before if other <= own), None)
        mostly = next((one for one, other in before if _without_given(other, own) <= own), None)
        first = always or mostly
        if first is not None:
            pairs.append((event, first, always is not None))
    return pairs


def _without_given(way: Way, other: Way) -> Way:
    """Return a path without the branches on given arguments, except those for which `other` takes the other branch."""
    return frozenset(arm for arm in way if not _is_given(arm) or (arm[0], "orelse") in other)


def _is_given(arm: tuple[ast.AST, str]) -> bool:
    """Return whether a branch is the body of `if mask is not None:`."""
    node, field = arm
    if not (isinstance(node, ast.If) and field == "body" and isinstance(node.test, ast.Compare)):
        return False
    test = node.test
    is_none = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None
    return len(test.ops) == 1 and isinstance(test.ops[0], ast.IsNot) and is_none


def _in_both_arms(ending: Sequence[tuple[Event, Way]]) -> list[tuple[Event, Way]]:
    """Return the paths where one of two breaks is certain to happen, because both branches of an `if` have a break."""
    found = []
    ways = {one for _, one in ending}
    for event, own in ending:
        for arm in own:
            outer = own - {arm}
            if arm[1] == "orelse" and isinstance(arm[0], ast.If) and outer | {(arm[0], "body")} in ways:
                found.append((event, outer))
    return found


def _comprehension(event: Event, parents: Parents) -> Comprehension | None:
    """Return the comprehension that an event is in. Its first iterable does not count, because it runs outside."""
    inner: tuple[ast.AST, str] | None = None
    for outer in ancestors(event.node, parents):
        if isinstance(outer[0], COMPREHENSIONS) and inner != (outer[0].generators[0], "iter"):
            return outer[0]
        inner = outer
    return None
