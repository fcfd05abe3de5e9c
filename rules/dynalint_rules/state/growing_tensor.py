"""DYN511: a tensor that outlives the call and gets longer on every call."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Declined, Project, Rewrite, Rule, StateChange, Violation, k
from dynalint_rules._code.changes import same
from dynalint_rules._code.growth import is_there_before, settles
from dynalint_rules._code.left_out import category_of
from dynalint_rules._code.order import may_return_before

_JOINING = frozenset({"cat", "concat", "concatenate", "hstack", "vstack", "dstack"})


class GrowingTensor(Rule):
    code = "DYN511"
    name = "growing-tensor"
    summary = "A tensor that outlives the call grows on every call, so later calls recompile"
    category = "recompile"
    severity = "warning"
    events = (StateChange,)

    def check(self, event: StateChange, project: Project) -> Iterable[Violation]:
        """Flag state whose new value is its old value concatenated with something."""
        if event.fresh or not event.reads_old or event.home.type in ("argument", "default"):
            return
        if _is_prolonged(event) and is_there_before(event, project) and not settles(event, project):
            enough = may_return_before(event.function, event.statement)  # as in `if length <= self.length: return`
            yield Violation(
                event.statement,
                f"`{event.home.name}` grows on every call, so the second call recompiles with a dynamic size",
                help="Write into a tensor with a fixed size, or let the caller keep the joined tensor.",
                category="advice" if enough else category_of(event, project),
            )

    def fix(self, event: StateChange, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Offer no fix, because the code does not show how long the tensor can get."""
        return Declined(
            f"the code does not say how long `{event.home.name}` can get; register a buffer with that size, and "
            "write to a position that the caller passes in"
        )


def _is_prolonged(event: StateChange) -> bool:
    """Return whether the new value, or a branch of it, is the old value concatenated with something."""
    statement = event.statement
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or k.only_tensor(event.new) is None:
        return False
    value = statement.value
    ways = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
    return any(_joins(way, statement.targets[0]) for way in ways)


def _joins(value: ast.expr, target: ast.expr) -> bool:
    """Return whether an expression is a call such as `torch.cat([target, more])`."""
    if not isinstance(value, ast.Call) or not value.args or not isinstance(value.args[0], ast.List | ast.Tuple):
        return False
    called = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
    parts = value.args[0].elts
    return called in _JOINING and len(parts) > 1 and any(same(part, target) for part in parts)
