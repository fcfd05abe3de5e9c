"""DYN405: the debugger is entered, or the keyboard is asked."""

from __future__ import annotations

from dynalint.rulekit import Call, Declined, Project, Rewrite, Rule, Violation
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.guard.statements import removed


class DebuggerCall(Rule):
    code = "DYN405"
    name = "debugger-call"
    summary = "Stopping in a debugger or reading the keyboard breaks the graph"
    gb = ("GB0059", "GB0007")
    events = (Call,)
    calls = frozenset({"builtins.breakpoint", "builtins.input", "pdb.set_trace"})
    message = "`{callee}()` waits for a person, which breaks the graph"
    help = "take it out"

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Take the stop out."""
        if event.callee == "builtins.input":
            return Declined("the model depends on the input; ask before the call and pass the answer on")
        return removed(Scope.of(event, project), event, "Take the stop in the debugger out", "safe")
