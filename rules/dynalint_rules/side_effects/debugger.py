"""DYN405: stopping in a debugger and reading the keyboard."""

from __future__ import annotations

from dynalint.rulekit import Call, Declined, Project, Rewrite, Rule, Violation
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.guard.statements import removed


class DebuggerCall(Rule):
    code = "DYN405"
    name = "debugger-call"
    summary = "Starting a debugger or reading keyboard input breaks the graph"
    gb = ("GB0059", "GB0007")
    events = (Call,)
    calls = frozenset({"builtins.breakpoint", "builtins.input", "pdb.set_trace"})
    message = "`{callee}()` waits for user input, which breaks the graph"
    help = "remove it"

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Remove the call."""
        if event.callee == "builtins.input":
            return Declined("the model depends on the input; read it before the call and pass it as an argument")
        return removed(Scope.of(event, project), event, "Remove the call to the debugger", "safe")
