"""What must hold for a graph break that was found to happen each time its line runs.

Three things leave that open: an operand before it in the same statement that Python may stop at, a value that is a
tensor on some ways only, and another break before it. A break inside a loop cannot be resumed from, nor one by what
Dynamo refuses as soon as it sees it: Dynamo gives up the function and runs it as it is, so what comes after in the same
function is not traced, and breaks nothing until then. A comprehension is a function of its own before Python 3.12:
it is compiled alone there, if it reads a tensor or module from outside.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Branch, Event
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.kinds import UNKNOWN, Kind, only_tensor
from dynalint.analysis.project import Project
from dynalint.analysis.source import quote

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
# Dynamo looks at functions that name one of these.
_LIBRARIES = ("torch", "torch.nn", "torch.nn.functional", "numpy")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp) if sys.version_info < (3, 12) else ()
# The statements of which only a part may run, and the fields of them that run in any case.
_CONDITIONAL: Mapping[str, tuple[str, ...]] = {
    "If": ("test",),
    "IfExp": ("test",),
    "Match": ("subject",),
    "match_case": (),
    "Try": ("body", "finalbody"),
    "TryStar": ("body", "finalbody"),
    "ExceptHandler": (),
}

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp
Kinds = Mapping[ast.AST, Kind]
Parents = Mapping[ast.AST, ast.AST]
Way = frozenset[tuple[ast.AST, str]]


def provisos(events: Sequence[Event], refused: Collection[Event], project: Project) -> dict[Event, str]:
    """Return what must hold for the graph breaks at these events, for those that are not certain: a sentence's end.

    Dynamo does not resume after the events in `refused`, wherever they stand.
    """
    found: dict[Event, str] = {}
    certain: dict[FunctionInfo, list[Event]] = defaultdict(list)
    for event in events:
        if isinstance(event.node, ast.Call) and event.condition is event.node.func:
            found[event] = f"{quote(event.function.file, event.node.func)} is something else on other ways here"
        elif event.condition is not None:
            found[event] = f"only runs that get past {quote(event.function.file, event.condition)} come here"
        elif isinstance(event, Branch) and only_tensor(event.kind) is None:
            found[event] = "on other ways to this line it is a plain Python value"
        else:
            certain[event.function].append(event)
    for function, own in certain.items():
        for event, other, always in _hidden(own, refused, project.parents(function), partial(project.kinds, function)):
            line = other.node.lineno
            found[event] = (
                f"it shows once line {line} no longer makes Dynamo give up the function"
                if always
                else f"only runs that do not come to line {line}, where Dynamo gives up the function, trace it"
            )
    return found


def runs_always(event: Event, project: Project) -> bool:
    """Whether an event stands under no condition of its function."""
    return event.condition is None and not _way(event, project.parents(event.function))


def _hidden(
    events: Sequence[Event], refused: Collection[Event], parents: Parents, kinds: Callable[[], Kinds]
) -> list[tuple[Event, Event, bool]]:
    """Return the events of one function that Dynamo does not come to, each with the break because of which.

    Last is whether every run comes to that break first, or those that are given an optional argument.
    """
    ordered = sorted(events, key=lambda event: (event.node.lineno, event.node.col_offset))
    ways = {event: _way(event, parents) for event in ordered}
    ending = [(event, ways[event]) for event in ordered if event in refused or _ends_function(event, parents)]
    ending += _in_both_arms(ending)
    pairs = []
    for event in ordered:
        comprehension = _comprehension(event, parents)
        if comprehension is not None and _sees_tensor(comprehension, kinds()):
            continue
        before = [(one, way) for one, way in ending if one.statement.lineno < event.statement.lineno]
        always = next((one for one, way in before if way <= ways[event]), None)
        mostly = next((one for one, way in before if _without_given(way, ways[event]) <= ways[event]), None)
        first = always or mostly
        if first is not None:
            pairs.append((event, first, always is not None))
    return pairs


def _without_given(way: Way, other: Way) -> Way:
    """Return a way less the arms for given arguments, as far as `other` does not take their other side."""
    return frozenset(arm for arm in way if not _is_given(arm) or (arm[0], "orelse") in other)


def _is_given(arm: tuple[ast.AST, str]) -> bool:
    """Whether an arm is that of `if mask is not None:`."""
    node, field = arm
    if not (isinstance(node, ast.If) and field == "body" and isinstance(node.test, ast.Compare)):
        return False
    test = node.test
    is_none = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None
    return len(test.ops) == 1 and isinstance(test.ops[0], ast.IsNot) and is_none


def _in_both_arms(ending: Sequence[tuple[Event, Way]]) -> list[tuple[Event, Way]]:
    """Return the ways to come to one of two breaks, of which each arm of an `if` has one: whichever it takes."""
    found = []
    ways = {way for _, way in ending}
    for event, way in ending:
        for arm in way:
            outer = way - {arm}
            if arm[1] == "orelse" and isinstance(arm[0], ast.If) and outer | {(arm[0], "body")} in ways:
                found.append((event, outer))
    return found


def _ends_function(event: Event, parents: Parents) -> bool:
    """Whether an event stands inside a loop; the test of a `while` is a place where Dynamo can resume."""
    for parent, field in _ancestors(event, parents):
        if isinstance(parent, _LOOPS) and field not in ("test", "iter"):
            return True
    return False


def _comprehension(event: Event, parents: Parents) -> Comprehension | None:
    """Return the comprehension that an event stands in, as a function of its own; its first iterable stands outside."""
    inner: tuple[ast.AST, str] | None = None
    for outer in _ancestors(event, parents):
        if isinstance(outer[0], _COMPREHENSIONS) and inner != (outer[0].generators[0], "iter"):
            return outer[0]
        inner = outer
    return None


def _sees_tensor(node: Comprehension, kinds: Kinds) -> bool:
    """Whether a comprehension reads from outside what makes Dynamo compile a function: a tensor, or a module."""
    first = {id(child) for child in ast.walk(node.generators[0].iter)}
    names = [child for child in ast.walk(node) if isinstance(child, ast.Name) and id(child) not in first]
    bound = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return any(_holds_tensor(kinds.get(name, UNKNOWN)) for name in names if name.id not in bound)


def _holds_tensor(kind: Kind) -> bool:
    if isinstance(kind, k.Sequence):
        return _holds_tensor(kind.element)
    if isinstance(kind, k.External):
        return kind.name in _LIBRARIES
    return only_tensor(kind) is not None or isinstance(kind, k.Instance)


def _way(event: Event, parents: Parents) -> Way:
    """The arms of conditional statements that must be taken to come to an event."""
    return frozenset(
        (parent, field)
        for parent, field in _ancestors(event, parents)
        if field not in _CONDITIONAL.get(type(parent).__name__, (field,))
    )


def _ancestors(event: Event, parents: Parents) -> list[tuple[ast.AST, str]]:
    """The nodes around an event within its function, innermost first, each with the field that the event is in."""
    found = []
    child: ast.AST = event.node
    parent = parents.get(child)
    while parent is not None and not isinstance(parent, _FUNCTIONS):
        found.append((parent, next(name for name, value in ast.iter_fields(parent) if _holds(value, child))))
        child, parent = parent, parents.get(parent)
    return found


def _holds(value: object, child: ast.AST) -> bool:
    return value is child or (isinstance(value, list) and any(item is child for item in value))
