"""DYN702: a compiled function that is a generator."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import GeneratorRoot, Project, Rule, Violation


class GeneratorForward(Rule):
    code = "DYN702"
    name = "generator-forward"
    summary = "a compiled function that yields is not compiled at all"
    gb = ("GB0003",)
    events = (GeneratorRoot,)

    def check(self, event: GeneratorRoot, project: Project) -> Iterable[Violation]:
        """Flag the function, unless a compiled caller goes through what it yields."""
        if not event.called:
            yield Violation(
                event.node,
                f"`{event.function.name}` is a generator, of which Dynamo compiles nothing",
                help="return a list of what it yields, or compile the function that goes through it",
            )
