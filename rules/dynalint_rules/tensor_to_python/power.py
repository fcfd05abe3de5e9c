"""DYN211: the builtin `pow()` of a tensor."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Event, Project, Rewrite, Rule, Violation, k, rw
from dynalint_rules._code.scope import Scope


class BuiltinPow(Rule):
    code = "DYN211"
    name = "builtin-pow"
    summary = "the builtin `pow()` of a tensor ends the graph, the operator `**` does not"
    gb = ("GB0059",)
    events = (Call,)
    calls = frozenset({"builtins.pow"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call if base or exponent is certainly a tensor."""
        if isinstance(event, Call) and len(event.args) == 2 and any(k.only_tensor(kind) for kind in event.args):
            yield Violation(
                event.node,
                "Dynamo does not trace the builtin `pow()` of a tensor, so the graph ends there",
                help="use the operator `**`",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Use the operator."""
        if not isinstance(event, Call):
            return None
        scope = Scope.of(event, project)
        node = event.node
        base, exponent = node.args
        power = rw.operation(rw.kept(scope.file, base), "**", rw.kept(scope.file, exponent))
        return Rewrite("Use the operator `**`", "safe", rw.written(scope.file, (node, power)))
