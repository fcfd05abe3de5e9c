"""DYN401: `print` and other writes to the console."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Project, Rewrite, Rule, Violation, leads_to_raise
from dynalint_rules._code.calls import callee
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.guard.statements import guarded, removed

_NAMES = {
    "builtins.print": "print()",
    "pprint.pprint": "pprint()",
    "pprint.pp": "pp()",
    "sys.stdout.write": "sys.stdout.write()",
    "sys.stdout.flush": "sys.stdout.flush()",
    "sys.stderr.write": "sys.stderr.write()",
    "sys.stderr.flush": "sys.stderr.flush()",
}


class PrintCall(Rule):
    code = "DYN401"
    name = "print-call"
    summary = "Printing breaks the graph"
    gb = ("GB0059", "GB0156", "GB0207")
    events = (Call,)
    calls = frozenset(_NAMES)

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag every call."""
        if not leads_to_raise(event, project):
            yield Violation(
                event.node,
                f"`{_NAMES[event.callee]}` writes to the console, which breaks the graph",
                help="print only in eager mode, under `if not torch.compiler.is_compiling():`",
            )

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Only print in eager code or, if the settings say so, remove the call."""
        scope = Scope.of(event, project)
        if project.options.get("print-fix") == "remove":
            return removed(scope, event, "Remove the statement that prints", "unsafe", ("eager code no longer prints",))
        return guarded(
            scope,
            event,
            "Print only in eager mode; compiled code does not print",
            alike=lambda call: callee(scope, call) in _NAMES,
        )
