"""DYN302: storing elements through a mask after computing them from elements read through the same mask."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Declined, Project, Rewrite, Rule, Subscript, Violation, quote
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.selection import reads_by_mask, target_of
from dynalint_rules._code.settings import captures_shapes
from dynalint_rules._shared.mask.joined_stores import stored


class MaskedStore(Rule):
    code = "DYN302"
    name = "masked-store"
    summary = "Assigning to masked elements breaks the graph if the new values are read with the same mask"
    severity = "warning"
    gb = ("GB0036",)
    reads_data = True
    events = (Subscript,)

    def check(self, event: Subscript, project: Project) -> Iterable[Violation]:
        """Flag statements that read and store through the same mask."""
        if not reads_by_mask(event) or captures_shapes(project, event.function):
            return
        target = target_of(event)
        if target is not None:
            shown = quote(event.function.file, target)
            yield Violation(
                event.statement,
                f"{shown} reads elements with the same mask, and their number depends on data, which breaks the graph",
                help="compute the value for all elements and select with `x = torch.where(mask, value, x)`",
            )

    def fix(self, event: Subscript, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Compute the value for all elements, and select."""
        return stored(Scope.of(event, project), event)
