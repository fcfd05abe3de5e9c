"""State that only eager code reads, because of a graph break."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from dynalint.analysis.events import ContainerChange, Event, StateChange
from dynalint.analysis.given_up import Way, ancestors, way
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.kinds import UNKNOWN, Instance, Kind, Unknown, Value
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPUTING = (ast.Await, ast.BinOp, ast.BoolOp, ast.Call, ast.Compare, ast.Subscript, ast.UnaryOp, ast.With)


def is_left_over(event: Event, breaks: Collection[Event], ends: Collection[Event], project: Project) -> bool:
    """Return whether it is possible that no compiled code reads the changed state, or what is selected.

    Nothing guards on it then. `breaks` are graph breaks that are certain to happen. `ends` are those in the function
    that may make Dynamo run it in eager mode as a whole.
    """
    function = event.function
    own = way(event.node, project.parents(function))
    given_up = _is_given_up(event, own, ends, project) or _is_in_unknown_loop(event, project)
    if not isinstance(event, StateChange | ContainerChange) or event.home.type != "attribute":
        return given_up
    if not given_up and not _follows(event, own, breaks, project):
        return False
    uses = project.attribute_uses(event.home.name.rpartition(".")[2])
    others = ((other, node) for _, other, node in uses if other is not None and other is not function)
    return not any(
        other.reached and _is_loaded(node, other, project) and _may_be_same(node, other, function, project)
        for other, node in others
    )


def _is_given_up(event: Event, own: Way, ends: Collection[Event], project: Project) -> bool:
    """Return whether a function may run in eager mode because of a break, in a call that reaches the event."""
    parents, arms = project.parents(event.function), dict(own)
    return any(
        all(arms.get(node, arm) == arm for node, arm in way(one.node, parents))
        for one in ends
        if one.node is not event.node
    )


def _is_in_unknown_loop(event: Event, project: Project) -> bool:
    """Return whether a loop around an event compares values that may be tensors, which would end its function."""
    kinds = project.kinds(event.function)
    loops = [one for one, _ in ancestors(event.node, project.parents(event.function)) if isinstance(one, _LOOPS)]
    tests = [one.test for loop in loops[-1:] for one in walk(loop) if isinstance(one, ast.If | ast.While)]
    return any(isinstance(one, ast.Compare) and isinstance(kinds.get(one, UNKNOWN), Unknown) for one in tests)


def _on_the_way(breaks: Collection[Event], event: Event, own: Way, project: Project) -> list[Event]:
    """Return the breaks in the same function that happen whenever the event does."""
    parents = project.parents(event.function)
    return [one for one in breaks if one.function is event.function and way(one.node, parents) <= own]


def _follows(event: Event, own: Way, breaks: Collection[Event], project: Project) -> bool:
    """Return whether a function only reads the state after a break, in code that computes with no tensor.

    Dynamo compiles no graph there.
    """
    function, kinds = event.function, project.kinds(event.function)
    known = [one.statement for one in _on_the_way(breaks, event, own, project)]
    before = [one for one in known if one.lineno < event.statement.lineno]
    if not before or not isinstance(event, StateChange) or event.position.loop:
        return False
    end = max(one.end_lineno or one.lineno for one in before)
    if any(_is_read(node, event.home.name) and getattr(node, "lineno", end) <= end for node in walk(function.node)):
        return False
    return not any(_computes(node, kinds) and getattr(node, "lineno", 0) > end for node in walk(function.node))


def _is_loaded(node: ast.Attribute, function: FunctionInfo, project: Project) -> bool:
    """Return whether an attribute is read, also by `self.n += 1`."""
    return isinstance(node.ctx, ast.Load) or isinstance(project.parents(function).get(node), ast.AugAssign)


def _may_be_same(node: ast.Attribute, other: FunctionInfo, function: FunctionInfo, project: Project) -> bool:
    """Return whether an attribute in another function may belong to the same object."""
    if function.owner is None:
        return True
    owners = [other.owner] if isinstance(node.value, ast.Name) and node.value.id == "self" else []
    kinds = project.kinds(other).get(node.value, UNKNOWN).members
    owners = owners or [one.cls if isinstance(one, Instance) else None for one in kinds]
    return any(
        one is None or one in project.mro(function.owner) or function.owner in project.mro(one) for one in owners
    )


def _is_read(node: ast.AST, name: str) -> bool:
    """Return whether an expression is the attribute or its name, as in `hasattr(self, "crop")`."""
    last = name.rpartition(".")[2]
    return (isinstance(node, ast.Attribute) and node.attr == last) or (
        isinstance(node, ast.Constant) and node.value == last
    )


def _computes(node: ast.AST, kinds: Mapping[ast.AST, Kind]) -> bool:
    """Return whether an expression may compute with tensors. If it gives a Python value (`t.numel()`), it does not."""
    if not isinstance(node, _COMPUTING):
        return False
    return not all(isinstance(one, Value) for one in kinds.get(node, UNKNOWN).members)
