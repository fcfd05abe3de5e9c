"""DYN503: a list, dict or other container that outlives the call and grows with every call."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import ContainerChange, Project, Rule, StateChange, Violation, k
from dynalint_rules._code.changes import is_collected, mentions, same, state_name
from dynalint_rules._code.deques import deque_limits
from dynalint_rules._code.growth import LIMIT, UP_TO_LIMIT, is_there_before, settles
from dynalint_rules._code.left_out import category_of

_GROWING = frozenset({"append", "appendleft", "extend", "extendleft", "insert", "iadd"})
_PLACES = {
    "attribute": "`self.{}`",
    "class": "the class attribute `{}`",
    "global": "the module global `{}`",
    "closure": "`{}` in the enclosing function",
    "default": "the default value of the parameter `{}`",
}


class GrowingContainer(Rule):
    code = "DYN503"
    name = "growing-container"
    summary = "A container that outlives the call grows on every call, so every call recompiles"
    category = "recompile"
    events = (ContainerChange, StateChange)
    refusal = (
        "the added item comes from the compiled call; return it and collect it outside, or only add to the "
        "container in eager mode, under `if not torch.compiler.is_compiling():`"
    )

    def check(self, event: ContainerChange | StateChange, project: Project) -> Iterable[Violation]:
        """Flag adding to containers that outlive the call."""
        place = _PLACES.get(event.home.type)
        grows = _grows(event, project) if isinstance(event, ContainerChange) else _is_prolonged(event)
        if place is not None and grows and is_there_before(event, project) and not settles(event, project):
            shown = place.format(event.home.name)
            yield Violation(
                event.statement,
                f"{shown} outlives the call and grows on every call, so each new length recompiles {UP_TO_LIMIT}",
                help="Return the added items and collect them outside the compiled code.",
                category="advice" if is_collected(event, project) else category_of(event, project),
                torch=">=2.13" if _is_numbered(event.statement) else "",
            )


def _grows(event: ContainerChange, project: Project) -> bool:
    """Return whether a change makes a container longer on every call, or often enough to reach Dynamo's limit."""
    if event.method in _GROWING:
        limits = [limit.value if isinstance(limit, ast.Constant) else 0 for limit in deque_limits(event, project)]
        return _is_sequence(event.container) and all(isinstance(limit, int) and limit > LIMIT for limit in limits)
    if event.method == "setitem" and isinstance(event.container, k.Dictionary):
        return _is_new_key(event)
    return False


def _is_sequence(kind: k.Kind) -> bool:
    return isinstance(kind, k.Sequence) and kind.type in ("list", "deque", "collections.deque")


def _is_new_key(event: ContainerChange) -> bool:
    """Return whether an item is stored with a new key: a tensor, the number of items, or an `id`."""
    if k.only_tensor(event.args[0]) is not None:
        return True
    statement = event.statement
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    keys = [target.slice for target in targets if isinstance(target, ast.Subscript)]
    return any(_differs(key, state_name(event)) for key in keys)


def _differs(key: ast.expr, name: str) -> bool:
    """Return whether a key is the number of items in the container called `name`, or an object's `id`."""
    if not isinstance(key, ast.Call) or not isinstance(key.func, ast.Name):
        return False
    return key.func.id == "id" or (key.func.id == "len" and mentions(key, name))


def _is_numbered(statement: ast.AST) -> bool:
    """Return whether an item's key is the number of items before it, in which case torch 2.11 only compiles once."""
    return (
        isinstance(statement, ast.Assign)
        and isinstance(target := statement.targets[0], ast.Subscript)
        and isinstance(key := target.slice, ast.Call)
        and isinstance(key.func, ast.Name)
        and key.func.id == "len"
    )


def _is_prolonged(event: StateChange) -> bool:
    """Return whether an assignment extends a list, tuple or string."""
    if event.fresh or not event.reads_old:
        return False
    types = {_type(member) for kind in (event.old, event.new) for member in kind.members}
    statement = event.statement
    if isinstance(statement, ast.AugAssign):
        # This would change a list in place.
        return isinstance(statement.op, ast.Add) and types <= {"tuple", "str"}
    if not isinstance(statement, ast.Assign) or not types <= {"list", "tuple", "str"}:
        return False
    value = statement.value
    return (
        isinstance(value, ast.BinOp)
        and isinstance(value.op, ast.Add)
        and any(same(side, target) for side in (value.left, value.right) for target in statement.targets)
    )


def _type(kind: k.Kind) -> str:
    return kind.type if isinstance(kind, k.Sequence | k.Value) else ""
