"""State that only matters after a graph break, where nothing is compiled because no operation on tensors follows."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from dynalint.analysis.events import Event, StateChange
from dynalint.analysis.given_up import way
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.kinds import UNKNOWN, Instance, Kind, Value
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk

_COMPUTING = (ast.Await, ast.BinOp, ast.BoolOp, ast.Call, ast.Compare, ast.Subscript, ast.UnaryOp, ast.With)


def is_left_over(event: Event, breaks: Collection[Event], project: Project) -> bool:
    """Return whether compiled code only reads the changed state after a break, in code that computes with no tensor.

    Dynamo compiles no graph there, so that nothing guards on the state.
    """
    if not isinstance(event, StateChange) or event.home.type != "attribute" or event.position.loop:
        return False
    function = event.function
    parents, kinds = project.parents(function), project.kinds(function)
    own = way(event.node, parents)
    before = [
        one.statement
        for one in breaks
        if one.function is function and one.statement.lineno < event.statement.lineno and way(one.node, parents) <= own
    ]
    if not before:
        return False
    end = max(one.end_lineno or one.lineno for one in before)
    if any(_is_read(node, event.home.name) and getattr(node, "lineno", end) <= end for node in walk(function.node)):
        return False
    if any(_computes(node, kinds) and getattr(node, "lineno", 0) > end for node in walk(function.node)):
        return False
    uses = project.attribute_uses(event.home.name.rpartition(".")[2])
    others = ((other, node) for _, other, node in uses if other is not None and other is not function)
    return not any(other.reached and _may_be_same(node, other, function, project) for other, node in others)


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
