"""DYN705: a class created in compiled code."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Call, ClassDefinition, Project, Rule, Violation


class ClassStatement(Rule):
    code = "DYN705"
    name = "class-statement"
    summary = "Defining a class in compiled code breaks the graph"
    gb = ("GB8977", "GB0156", "GB0007")
    events = (ClassDefinition, Call)
    calls = frozenset({"dataclasses.make_dataclass", "types.new_class"})
    refusal = "the class may use names from the enclosing function; define it at module level, and pass their values in"

    def check(self, event: ClassDefinition | Call, project: Project) -> Iterable[Violation]:
        """Flag the statement or call."""
        if isinstance(event, ClassDefinition):
            yield Violation(
                event.node,
                f"the class `{event.node.name}` is created on every call, which Dynamo does not trace",
                help="define it at module level",
            )
        elif isinstance(event, Call):
            yield Violation(
                event.node, f"`{event.callee}()` creates a class on every call, which Dynamo does not trace"
            )
