"""Queries about state that is kept between calls, and whether it settles or changes on every call.

Dynamo specialises on Python values and guards on them. A flag or a cycle of a few values settles after a few graphs. A
value that is new on every call causes a recompilation each time, until Dynamo gives up.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dynalint.rulekit import (
    ContainerChange,
    FunctionInfo,
    Project,
    StateChange,
    k,
    walk,
    walk_function,
    way,
)
from dynalint_rules._code.changes import Change, mentions, names, other_changes, same, state_name
from dynalint_rules._code.left_out import is_in_autograd
from dynalint_rules._code.new_values import is_computed_from_old, new_value
from dynalint_rules._code.once import runs_once

LIMIT = 8
"""The number of graphs per function after which Dynamo gives up, as set by `torch._dynamo.config.recompile_limit`."""
UP_TO_LIMIT = f"until Dynamo reaches the recompile limit ({LIMIT} by default)"

_OPERATIONS = (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript)
_COUNTING = (ast.Add, ast.Sub)
_SPECIALISED = frozenset({"attribute", "class", "global"})


def is_counter(event: StateChange, project: Project) -> bool:
    """Return whether a Python int changes on every call and causes a recompilation each time."""
    return (
        is_computed_from_old(event, project)
        and not event.fresh
        and _is_int(event.old)
        and _is_int(event.new)
        and _counts(event, project)
        and is_specialised(event, project)
        and not settles(event, project)
        and may_compile(event, project)
    )


def may_compile(event: Change, project: Project) -> bool:
    """Return whether the compiled code can contain anything that becomes a graph. Otherwise, Dynamo ignores it.

    Dynamo does not compile an autograd function that changes state. What only runs now and then, as in
    `if self.n % 100 == 0: print(x.mean())`, does not count, because there is no graph in most calls.
    """
    function, parents = event.function, project.parents(event.function)
    if is_in_autograd(function, project):
        return False
    if function.caller is not None:
        return True
    kinds = project.kinds(function)
    return any(
        isinstance(node, _OPERATIONS)
        and any(isinstance(one, k.Tensor | k.Unknown) for one in kinds.get(node, k.UNKNOWN).members)
        for node in walk_function(function.node)
        if not isinstance(node, ast.Subscript) or isinstance(node.ctx, ast.Load)
        if not any(isinstance(one, ast.If) and mentions(one.test, state_name(event)) for one, _ in way(node, parents))
    )


def is_specialised(event: StateChange, project: Project) -> bool:
    """Return whether Dynamo specialises on an int that is stored in this home.

    It specialises on ints in modules, classes and globals. An int in a closure, an argument or its default, or an
    object whose own method was compiled, becomes symbolic after one recompilation.
    """
    if event.home.type not in _SPECIALISED:
        return False
    return event.home.type != "attribute" or is_held(event.function, project, compiled=False)


def is_there_before(event: StateChange | ContainerChange, project: Project) -> bool:
    """Return whether the state exists before the call to the compiled code that changes it."""
    if event.home.type == "attribute":
        return is_held(event.function, project, compiled=True)
    if event.home.type == "closure":
        name, outer = state_name(event), event.function.parent
        while outer is not None and outer.parent is not None and name not in outer.locals:
            outer = outer.parent
        return outer is not None and not outer.reached
    return True


def is_held(method: FunctionInfo, project: Project, *, compiled: bool) -> bool:
    """Return whether `self` in a method exists before the call, as a module, or as an object in a module or a global.

    Objects that are passed to the call or created in it do not count. `compiled` is the result for an object whose own
    method was compiled. It exists before the call, but Dynamo treats it as an argument.
    """
    seen: set[FunctionInfo] = set()
    while method.owner is not None and not project.is_module_class(method.owner):
        caller = method.caller
        if caller is None or caller in seen:
            return compiled and caller is None
        seen.add(caller)
        called = [one.value for one in _methods_called(caller.node) if one.attr == method.name]
        receivers = [_root(one) for one in called if not _is_created(one, caller.node)]
        own = _first_parameter(caller)
        if any(name in caller.module.bindings and name not in caller.locals for name in receivers):
            return True
        if own is None or own not in receivers:
            return False
        method = caller
    return True


def _is_created(receiver: ast.expr, function: ast.AST) -> bool:
    """Return whether a function stores a new object in an attribute before it calls its method."""
    return isinstance(receiver, ast.Attribute) and any(
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and any(same(target, receiver) for target in node.targets)
        and node.lineno < receiver.lineno
        for node in walk(function)
    )


def _methods_called(function: ast.AST) -> Iterator[ast.Attribute]:
    for node in walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func


def _root(node: ast.expr) -> str:
    """Return the variable at the start of an expression such as `self.stats[0].inner`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _first_parameter(function: FunctionInfo) -> str | None:
    return function.positional[0].arg if function.owner is not None and function.positional else None


def settles(event: Change, project: Project) -> bool:
    """Return whether code around the change, or elsewhere in the region, limits how much the state grows."""
    return _runs_a_few_times(event, project) or any(
        _ends_growth(statement, function, event, project) for function, statement in other_changes(event, project)
    )


def _is_int(kind: k.Kind) -> bool:
    members = [member for member in kind.members if member != k.NONE]
    return bool(members) and all(isinstance(member, k.Value) and member.type == "int" for member in members)


def _counts(event: StateChange, project: Project) -> bool:
    """Return whether the new value is the old value plus or minus something, without a small modulus."""
    statement = event.statement
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.op, _COUNTING) and not _is_zero(statement.value)
    value = new_value(event, project)
    if value is None or not isinstance(statement, ast.Assign):
        return False
    target = statement.targets[0]
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mod):
        period = _int_value(value.right, event.function, project)
        return period is not None and period > LIMIT and _is_step(value.left, target)
    return _is_step(value, target)


def _is_step(value: ast.expr, target: ast.expr) -> bool:
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, _COUNTING):
        return False
    if same(value.left, target):
        return not _is_zero(value.right)
    return isinstance(value.op, ast.Add) and same(value.right, target) and not _is_zero(value.left)


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _int_value(node: ast.expr, function: FunctionInfo, project: Project) -> int | None:
    """Return the value of an int expression, or None if it is unknown."""
    kind = k.constant(node.value) if isinstance(node, ast.Constant) else project.kinds(function).get(node)
    if isinstance(kind, k.Value) and type(kind.constant) is int:
        return kind.constant
    return _default_of(node, function, project)


def _default_of(node: ast.expr, function: FunctionInfo, project: Project) -> int | None:
    """Return the default of the constructor parameter that is assigned to `self.name`."""
    if not isinstance(node, ast.Attribute) or function.owner is None:
        return None
    for cls in project.mro(function.owner):
        for method, statement in cls.stores.get(node.attr, ()):
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name):
                default = _written_or_default(statement.value, method)
                if default is not None:
                    return default
    return None


def _runs_a_few_times(event: Change, project: Project) -> bool:
    """Return whether a test around the change limits how many times it runs, for example by bounding the state."""
    for test, block in tests_around(event.statement, event.function, project):
        if isinstance(event, ContainerChange) and _asks(test, state_name(event)):
            return True
        if any(isinstance(node, ast.In | ast.NotIn) for node in walk(test)):
            return True  # the change runs once per key, and repeated calls have the same keys
        bounded = _compares_with(test, event, event.function, project, most=LIMIT)
        if (bounded and not _starts_far(event, project)) or _closes(test, block, event.statement):
            return True
    return runs_once(event.function, project)


def _starts_far(event: Change, project: Project) -> bool:
    """Return whether a count starts at a number so large that Dynamo gives up before the count ends."""
    statement = event.statement
    down = isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Sub)
    start = _start(state_name(event), event.function, project) if down else None
    return start is not None and start > LIMIT


def _start(name: str, function: FunctionInfo, project: Project) -> int | None:
    """Return the number that the constructor assigns to an attribute, or None if it is unknown."""
    for cls in project.mro(function.owner) if function.owner is not None else ():
        for method, statement in cls.stores.get(name, ()):
            if method.name == "__init__" and isinstance(statement, ast.Assign):
                return _written_or_default(statement.value, method)
    return None


def _written_or_default(value: ast.expr, function: FunctionInfo) -> int | None:
    """Return the value of an int literal or of a parameter's default."""
    if isinstance(value, ast.Name):
        value = function.defaults.get(value.id, value)
    return value.value if isinstance(value, ast.Constant) and type(value.value) is int else None


def tests_around(
    statement: ast.stmt, function: FunctionInfo, project: Project
) -> Iterator[tuple[ast.expr, list[ast.stmt]]]:
    """Yield the test of each `if` and `while` around a statement, with the block that contains the statement."""
    parents = project.parents(function)
    inner: ast.AST = statement
    outer = parents.get(inner)
    while outer is not None and outer is not function.node:
        if isinstance(outer, ast.If | ast.While):
            yield outer.test, outer.body if inner in outer.body else outer.orelse
        inner, outer = outer, parents.get(outer)


def _asks(test: ast.expr, name: str) -> bool:
    """Return whether a test checks a container's size or contents: `len(xs) < n`, `key not in xs`, `not xs`."""
    if isinstance(test, ast.BoolOp):
        return any(_asks(one, name) for one in test.values)
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is | ast.IsNot) and names(test.left, name):
        return False  # `xs is not None` says nothing about what is in it
    return any(
        isinstance(node, ast.Compare | ast.UnaryOp | ast.Call) and mentions(node, name) for node in walk(test)
    ) or names(test, name)


def _compares_with(test: ast.expr, event: Change, function: FunctionInfo, project: Project, *, most: int) -> bool:
    """Return whether a test compares the state itself with a number that is at most `most`."""
    name = state_name(event)
    for node in walk(test):
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
            values = [_int_value(part, function, project) for part in parts if not names(part, name)]
            if len(values) < len(parts) and any(value is not None and abs(value) <= most for value in values):
                return True
    return False


def _closes(test: ast.expr, block: list[ast.stmt], change: ast.stmt) -> bool:
    """Return whether a block assigns a value that its own test reads, such as `self.ready`."""
    asked = {ast.unparse(node) for node in walk(test) if isinstance(node, ast.Attribute | ast.Name)}
    return any(
        ast.unparse(target) in asked
        for statement in block
        if statement is not change and isinstance(statement, ast.Assign)
        for target in statement.targets
    )


def _ends_growth(statement: ast.stmt, function: FunctionInfo, event: Change, project: Project) -> bool:
    """Return whether a statement resets the state soon enough.

    A reset that waits for a number may take hundreds of calls.
    """
    if isinstance(event, ContainerChange):
        return True
    waits = [
        test
        for test, _ in tests_around(statement, function, project)
        if any(isinstance(node, ast.Compare) and mentions(node, state_name(event)) for node in walk(test))
    ]
    return not waits or any(_compares_with(test, event, function, project, most=LIMIT) for test in waits)
