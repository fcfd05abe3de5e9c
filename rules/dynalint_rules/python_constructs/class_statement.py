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
    refusal = "the class may use names from the enclosing function; define it at module level and pass in their values"

    def check(self, event: ClassDefinition | Call, project: Project) -> Iterable[Violation]:
        """Flag the statement or call."""
        if isinstance(event, ClassDefinition):
            message = f"defining `{event.node.name}` breaks the graph, because Dynamo does not trace class creation"
            yield Violation(event.node, message, help="define it at module level")
        elif isinstance(event, Call):
            message = f"`{event.callee}()` breaks the graph, because Dynamo does not trace class creation"
            yield Violation(event.node, message, help="create the class at module level")
