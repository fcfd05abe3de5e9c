"""DYN717: explicit graph breaks."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import DISABLED, Call, Project, Rule, Violation


class ExplicitBreak(Rule):
    code = "DYN717"
    name = "explicit-break"
    summary = "The code explicitly breaks the graph"
    category = "advice"
    severity = "info"
    gb = ("GB0098", "GB0025", "GB4297")
    events = (Call,)
    calls = frozenset({DISABLED, "torch._dynamo.graph_break", "torch._dynamo.skip_frame"})

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Report the call."""
        by = "called function is excluded from compilation" if event.callee == DISABLED else "code asks for it"
        yield Violation(event.node, f"the graph breaks here, because the {by}")
