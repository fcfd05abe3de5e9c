"""Tests for missing state. The first call finds the state missing and creates it, so that later calls find it.

if self.mask is None:           if n in self.masks:             mask = self.masks.get(n)
    self.mask = make(n)             return self.masks[n]        if mask is None:
                                self.masks[n] = make(n)             mask = self.masks[n] = make(n)

self.state = cell(x, self.state)     self.state["last"] = x
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dynalint.rulekit import ContainerChange, FunctionInfo, Project, StateChange, k, walk, walk_function, way
from dynalint_rules._code.changes import other_changes, same, sets_elsewhere, state_name
from dynalint_rules._code.initial import (
    initial,
    is_behind_flag,
    is_empty_tensor,
    is_filled,
    is_hasattr,
    is_taken,
    item_for,
    truth_of,
    without_flags,
)
from dynalint_rules._code.order import may_return_before, returns_before
from dynalint_rules._code.passed_values import is_looked_at
from dynalint_rules._code.state_outcomes import Kinds, State, is_no_size, outcome

Change = StateChange | ContainerChange


@dataclass(frozen=True)
class StateTest:
    """A statement that tests for state. Its test is `truth` on the path to the code that creates the state.

    `leaves` is true if its body returns when the state exists. Otherwise, one of its blocks creates the state.
    """

    statement: ast.If | ast.While
    truth: bool
    leaves: bool


def asking(event: Change, project: Project) -> StateTest | None:
    """Return the statement, around a change or before it, that tests whether the state already exists."""
    state, parents = State.of(event), project.parents(event.function)
    for one in _on_the_way(event.statement, event.function, project):
        test = one.statement.test
        if one.leaves and way(event.statement, parents) != way(one.statement, parents):
            continue  # another condition also determines which call creates it
        if not state.is_asked_for(test):
            continue
        # Dynamo does not guard on whether a tensor is true.
        kinds = project.kinds(event.function)
        if k.only_tensor(kinds.get(test, k.UNKNOWN)) is None and not _is_settled(test, kinds):
            missing = _says_missing(test, state, truth=one.truth)
            if missing or (missing is None and (not one.leaves or is_made_for_sure(event, one, project))):
                return one
    return None


def _is_settled(test: ast.expr, kinds: Mapping[ast.AST, k.Kind]) -> bool:
    """Return whether a test's outcome is known before it reads any state: `torch.compiler.is_compiling() or ...`."""
    if not isinstance(test, ast.BoolOp):
        return False
    first, settling = test.values[0], isinstance(test.op, ast.Or)
    while isinstance(first, ast.UnaryOp) and isinstance(first.op, ast.Not):
        first, settling = first.operand, not settling
    kind = kinds.get(first, k.UNKNOWN)
    return isinstance(first, ast.Call) and isinstance(kind, k.Value) and kind.constant is settling


def is_made_for_sure(event: Change, found: StateTest, project: Project) -> bool:
    """Return whether the constructor leaves the state missing and the first call always creates it."""
    function, state = event.function, State.of(event)
    if event.home.type != "attribute" or event.home.name != state.name or function.owner is None:
        return False
    parents, kinds = project.parents(function), project.kinds(function)
    arms = way(event.statement, parents) | way(found.statement, parents)
    values, test = initial(function.owner, state.name, project), without_flags(found.statement.test, function, project)
    if values:
        made = all(outcome(test, state, value, kinds) is found.truth and _differs(event, value) for value in values)
    else:
        made = any(map(is_hasattr, walk(test))) and _is_forced(test, state, truth=found.truth)
    others = list(other_changes(event, project))
    if isinstance(event, ContainerChange) and any(map(_takes_items_out, others)):
        return False
    return (
        made
        and (not isinstance(test, ast.BoolOp) or state.is_asked_for(test.values[0]))
        and not any(one.reached and not _is_part(one, event) for one, _ in others)
        and not any(_sets_back(statement, found, state, kinds) for _, statement in others)
        and all(node is found.statement or is_taken(node, arm, function, project) for node, arm in arms)
        and not _may_leave(event, found, project)
        and not _is_replaced(function, project)
        and not is_behind_flag(function, project, state.name)
    )


def _is_part(function: FunctionInfo, event: Change) -> bool:
    """Return whether a function makes a change, overrides the one that does, or is called by the statement."""
    called = (one.func for one in walk(event.statement) if isinstance(one, ast.Call))
    return function.name in (event.function.name, *(one.attr for one in called if isinstance(one, ast.Attribute)))


def _is_replaced(function: FunctionInfo, project: Project) -> bool:
    """Return whether a decorator is a class of the project, whose object may call the function only once."""
    interpreter, decorators = project.interpreter, getattr(function.node, "decorator_list", ())
    targets = (one.func if isinstance(one, ast.Call) else one for one in decorators)
    named = (one for one in targets if isinstance(one, ast.Name | ast.Attribute))
    return interpreter is not None and any(
        isinstance(interpreter.scopes.in_scope(one, function.module, function.parent), k.Class) for one in named
    )


def _may_leave(event: Change, found: StateTest, project: Project) -> bool:
    """Return whether the function may return before a change, with its settings at their defaults."""
    parents, own = project.parents(event.function), set(walk(found.statement))
    others = {"body": "orelse", "orelse": "body"}
    return any(
        not any(is_taken(node, others.get(arm, arm), event.function, project) for node, arm in way(one, parents))
        for one in returns_before(event.function, event.statement)
        if one not in own
    )


def keys_added(event: Change, project: Project) -> list[str]:
    """Return the keys that the first call of a function always adds to a dict, as in `self.d["k"] = v`.

    The list is empty unless the event adds the first of them and no code removes keys.
    """
    function, statement, name = event.function, event.statement, state_name(event)
    if not isinstance(event, ContainerChange) or event.method != "setitem" or event.home.type != "attribute":
        return []
    stored = _stored_item(statement)
    if stored is None or function.owner is None or event.home.name != name:
        return []
    values = initial(function.owner, name, project)
    added = (
        bool(values)
        and all(_is_dict_without(stored[1], value) for value in values)
        and not is_filled(function.owner, name, project)
        and not way(statement, project.parents(function))
        and not may_return_before(function, event.statement)
        and not any(map(_takes_items_out, other_changes(event, project)))
    )
    if not added:
        return []
    assigned = (one for one in walk_function(function.node) if isinstance(one, ast.Assign))
    stores = sorted(assigned, key=lambda one: one.lineno)
    items = [(one, item) for one in stores if (item := _stored_item(one)) is not None and same(item[0], stored[0])]
    keys = {
        item[1]: one
        for one, item in reversed(items)
        if all(_is_dict_without(item[1], value) for value in values) and not way(one, project.parents(function))
    }
    return [*reversed(keys)] if keys[next(reversed(keys))] is statement else []


def _stored_item(statement: ast.stmt) -> tuple[ast.expr, str] | None:
    """Return the dict and the key of a statement such as `self.d["k"] = v`, or None for any other statement."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(target, ast.Subscript) or not isinstance(target.slice, ast.Constant):
        return None
    return (target.value, target.slice.value) if isinstance(target.slice.value, str) else None


def _sets_back(statement: ast.stmt, found: StateTest, state: State, kinds: Kinds) -> bool:
    """Return whether compiled code removes the state again (`self.mask = None`), so that every call may recreate it."""
    if not isinstance(statement, ast.Assign):
        return False
    value = statement.value
    value = item_for(statement.targets, value, state.name) if isinstance(value, ast.Tuple) else value
    return outcome(found.statement.test, state, value, kinds) is found.truth


def _takes_items_out(other: tuple[FunctionInfo, ast.stmt]) -> bool:
    """Return whether another change to a container does more than store items."""
    targets = other[1].targets if isinstance(other[1], ast.Assign) else [None]
    return not all(isinstance(target, ast.Subscript) for target in targets)


def _is_dict_without(key: str, value: ast.expr) -> bool:
    """Return whether a value is a dict literal that only has other constant keys."""
    if isinstance(value, ast.Dict):
        return all(isinstance(one, ast.Constant) and one.value != key for one in value.keys)
    return isinstance(value, ast.Call) and truth_of(value) is False


def turns_from_none(event: StateChange, project: Project) -> bool:
    """Return whether the first call finds None or a number and stores tensors, as in `self.h = cell(x, self.h)`."""
    function, state = event.function, State.of(event)
    if event.home.type != "attribute" or event.home.name != state.name or function.owner is None or event.fresh:
        return False
    if not all(isinstance(one, k.Tensor | k.Sequence) for one in event.new.members):
        return False
    parents = project.parents(function)
    values = initial(function.owner, state.name, project)
    return (
        _starts_without(values, event)
        and not way(event.statement, parents)
        and not may_return_before(function, event.statement)
        and len(list(_stores(function, state))) == 1
        and any(_looks_at(node, event, state, project) for node in walk_function(function.node))
        and not any(_takes_for_there(node, event, state, parents) for node in walk_function(function.node))
        and not sets_elsewhere(event, project)
    )


def _starts_without(values: Iterable[ast.expr], event: StateChange) -> bool:
    """Return whether the constructor sets None, or a number that the call replaces with a tensor."""
    types = {type(one.value) if isinstance(one, ast.Constant) else object for one in values}
    return types == {type(None)} or (bool(types) and types <= {int, float} and k.only_tensor(event.new) is not None)


def _stores(function: FunctionInfo, state: State) -> Iterator[ast.Attribute]:
    for node in walk_function(function.node):
        if isinstance(node, ast.Attribute) and node.attr == state.name and isinstance(node.ctx, ast.Store):
            yield node


def _looks_at(node: ast.AST, event: Change, state: State, project: Project) -> bool:
    """Return whether every call looks at an attribute before changing it, so that Dynamo guards on it."""
    parents = project.parents(event.function)
    if not isinstance(node, ast.Attribute) or node.attr != state.name or not isinstance(node.ctx, ast.Load):
        return False
    if not any(same(node.value, one.value) for one in _stores(event.function, state)):
        return False  # `self.shape = x.shape` reads another object
    if node.lineno > (event.statement.end_lineno or event.statement.lineno) or way(node, parents):
        return False
    given = parents.get(node)
    outer = parents.get(given) if isinstance(given, ast.keyword) else given
    if isinstance(outer, ast.Call) and outer.func is not node:
        return is_looked_at(project, outer, node, project.kinds(event.function).get(outer.func, k.UNKNOWN))
    if not isinstance(outer, ast.Assign) or not isinstance(name := outer.targets[0], ast.Name):
        return not isinstance(outer, ast.Expr)
    named = (one for one in walk(event.function.node) if isinstance(one, ast.Name) and one.id == name.id)
    return any(isinstance(one.ctx, ast.Load) for one in named)


def _takes_for_there(node: ast.AST, event: Change, state: State, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether every call reads an attribute or item of the state, which raises for None, before changing it."""
    outer = parents.get(node)
    return (
        isinstance(node, ast.Attribute)
        and node.attr == state.name
        and isinstance(outer, ast.Attribute | ast.Subscript)
        and outer.value is node
        and node.lineno <= (event.statement.end_lineno or event.statement.lineno)
        and not way(node, parents)
    )


def _on_the_way(statement: ast.stmt, function: FunctionInfo, project: Project) -> Iterator[StateTest]:
    """Yield the tests around a statement, and the earlier tests whose block returns, innermost first."""
    parents = project.parents(function)
    inner: ast.AST = statement
    while inner is not function.node:
        outer = parents.get(inner, function.node)
        if isinstance(outer, ast.If | ast.While):
            yield StateTest(outer, inner in outer.body, leaves=False)
        blocks = [getattr(outer, name, None) for name in ("body", "orelse", "finalbody")]
        block = next((block for block in blocks if isinstance(block, list) and inner in block), [inner])
        for one in reversed(block[: block.index(inner)]):
            if isinstance(one, ast.If) and not one.orelse and isinstance(one.body[-1], ast.Return):
                yield StateTest(one, truth=False, leaves=True)
        inner = outer


def _says_missing(test: ast.expr, state: State, *, truth: bool) -> bool | None:
    """Return whether the state is missing if `test` is `truth`, or None if the test is about something else."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _says_missing(test.operand, state, truth=not truth)
    if isinstance(test, ast.BoolOp):
        answers = {_says_missing(one, state, truth=truth) for one in test.values if state.is_asked_for(one)}
        together = isinstance(test.op, ast.And) is truth
        there = answers == {False} or (together and False in answers)
        return True if True in answers else False if there else None
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        operator, other = test.ops[0], test.comparators[0]
        if isinstance(operator, ast.In | ast.NotIn) and state.is_read_by(other):
            return isinstance(operator, ast.NotIn) is truth
        is_none = isinstance(other, ast.Constant) and other.value is None
        if is_none and isinstance(operator, ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
            return isinstance(operator, ast.Is | ast.Eq) is truth
    elif is_hasattr(test):
        return not truth
    elif state.is_read_by(test) and not truth:
        return True
    return None


def _is_forced(test: ast.expr, state: State, *, truth: bool) -> bool:
    """Return whether a test is certain to be `truth` if the state is missing."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _is_forced(test.operand, state, truth=not truth)
    if isinstance(test, ast.BoolOp):
        answers = [_is_forced(one, state, truth=truth) for one in test.values]
        return any(answers) if isinstance(test.op, ast.Or) is truth else all(answers)
    return state.is_asked_for(test) and _says_missing(test, state, truth=truth) is True


def _differs(event: Change, value: ast.expr) -> bool:
    """Return whether a test can distinguish the state after a change from the state that the constructor sets."""
    if not isinstance(event, StateChange) or is_empty_tensor(value) or truth_of(value) is None:
        return True
    constant = value.value if isinstance(value, ast.Constant) else None
    if constant is None:
        return event.new != k.NONE
    return all(
        not isinstance(one, k.Value)
        or (one.constant is not k.MISSING and one.constant != constant)
        or (one.source == "shape" and is_no_size(value))
        for one in event.new.members
    )
