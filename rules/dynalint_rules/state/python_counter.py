"""DYN501: a Python counter on a module."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Declined, Project, Refusal, Rewrite, Rule, StateChange, Violation
from dynalint_rules._code.growth import UP_TO_LIMIT, is_counter
from dynalint_rules._code.left_out import category_of
from dynalint_rules._shared.state import number_to_buffer


class PythonCounter(Rule):
    code = "DYN501"
    name = "python-counter"
    summary = "A Python int on a module changes on every call, so every call recompiles"
    category = "recompile"
    events = (StateChange,)

    def check(self, event: StateChange, project: Project) -> Iterable[Violation]:
        """Flag counters that are stored on `self`."""
        if event.home.type == "attribute" and is_counter(event, project):
            yield Violation(
                event.statement,
                f"`self.{event.home.name}` is an int that changes on every call, so every call recompiles "
                f"{UP_TO_LIMIT}",
                help="Keep the count in a buffer that the constructor registers, or count outside the compiled code.",
                category=category_of(event, project),
            )

    def fix(self, event: StateChange, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Keep the counter in a buffer if it belongs to this module."""
        owner = event.function.owner
        is_module = owner is not None and project.is_module_class(owner)
        if event.home.name.isidentifier() and is_module:
            return number_to_buffer(event, project)
        raise Refusal("the count does not belong to this module alone; count outside the compiled function instead")
