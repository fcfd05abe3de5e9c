"""DYN702: a compiled function that is a generator."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import GeneratorRoot, Project, Rule, Violation


class GeneratorForward(Rule):
    code = "DYN702"
    name = "generator-forward"
    summary = "A function that contains `yield` is not compiled"
    gb = ("GB0003",)
    events = (GeneratorRoot,)

    def check(self, event: GeneratorRoot, project: Project) -> Iterable[Violation]:
        """Flag the function, unless a compiled caller iterates over its result."""
        if not event.called:
            yield Violation(
                event.node,
                f"`{event.function.name}` is a generator function, which Dynamo does not compile",
                help="return a list of the values that it yields, or compile the function that iterates over it",
            )
