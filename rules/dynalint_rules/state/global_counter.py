"""DYN502: a Python counter on a class or in a module global."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Project, Rule, StateChange, Violation, walk
from dynalint_rules._code.growth import UP_TO_LIMIT, is_counter
from dynalint_rules._code.left_out import category_of

_PLACES = {"class": "a class attribute", "global": "a module global"}


class GlobalCounter(Rule):
    code = "DYN502"
    name = "global-counter"
    summary = "A Python int on a class or in a module global changes on every call, so every call recompiles"
    category = "recompile"
    events = (StateChange,)
    refusal = "other code may need the count as a Python number; count outside the compiled function instead"

    def check(self, event: StateChange, project: Project) -> Iterable[Violation]:
        """Flag counters that are not stored on `self`."""
        place = _PLACES.get(event.home.type)
        if place is not None and is_counter(event, project):
            yield Violation(
                event.statement,
                f"`{event.home.name}`, {place}, is an int that changes on every call, so every call recompiles "
                f"{UP_TO_LIMIT}",
                help="Count outside the compiled code, or keep the count in a buffer on the module.",
                category=category_of(event, project),
                torch="<2.14" if _is_only_counted(event) else "",
            )


def _is_only_counted(event: StateChange) -> bool:
    """Return whether a global counter is never read. If so, torch 2.14 and later do not specialise on it."""
    inside = {id(node) for node in walk(event.statement)}
    names = [node for node in walk(event.function.node) if isinstance(node, ast.Name) and node.id == event.home.name]
    is_number = any(isinstance(node.ctx, ast.Store) for node in names)
    return is_number and not any(isinstance(node.ctx, ast.Load) and id(node) not in inside for node in names)
