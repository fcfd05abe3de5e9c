"""DYN004: the result of `torch.compile` is discarded."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import CompilerUse, Project, Rule, Violation
from dynalint_rules._code.compiling import compilation


class DiscardedResult(Rule):
    code = "DYN004"
    name = "discarded-result"
    summary = "The result of `torch.compile` is discarded, so nothing is compiled"
    category = "advice"
    severity = "warning"
    events = (CompilerUse,)
    refusal = "using the result would compile code that currently runs in eager mode; decide whether you want that"

    def check(self, event: CompilerUse, project: Project) -> Iterable[Violation]:
        """Flag calls whose result is not used."""
        found = compilation(event, project)
        if found is not None and isinstance(project.parents(event.function).get(found.call), ast.Expr):
            subject = event.function.file.segment(found.subject)
            yield Violation(
                found.call,
                "`torch.compile` does not change its argument, so nothing is compiled unless you use the result",
                help=f"Call `{subject}.compile()` if this is a module, or assign the result, as in `{subject} = "
                "torch.compile(...)`.",
            )
