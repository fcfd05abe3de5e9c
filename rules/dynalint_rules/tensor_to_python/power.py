"""DYN211: calling the builtin `pow()` with a tensor."""

from __future__ import annotations

from dynalint.rulekit import Call, Declined, Project, Rewrite, Rule, Violation, k, rw
from dynalint_rules._code.scope import Scope


class BuiltinPow(Rule):
    code = "DYN211"
    name = "builtin-pow"
    summary = "Calling the builtin `pow()` with a tensor breaks the graph, but the `**` operator does not"
    gb = ("GB0059",)
    torch = "<2.14"
    events = (Call,)
    calls = frozenset({"builtins.pow"})
    message = "Dynamo does not trace the builtin `pow()` with a tensor, so the graph breaks here"
    help = "use the `**` operator"

    def flags(self, event: Call, project: Project) -> bool:
        """Return whether the base or the exponent is known to be a tensor."""
        return len(event.args) == 2 and any(k.only_tensor(kind) for kind in event.args)

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Use the operator."""
        scope = Scope.of(event, project)
        node = event.node
        base, exponent = node.args
        power = rw.operation(rw.kept(scope.file, base), "**", rw.kept(scope.file, exponent))
        return Rewrite("Use the `**` operator", "safe", rw.written(scope.file, (node, power)))
