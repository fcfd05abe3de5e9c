"""DYN004: the result of `torch.compile` is thrown away."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis.events import CompilerUse, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.compiling import compilation


class DiscardedResult(Rule):
    """Throw away what `torch.compile` returns, so that nothing is compiled.

    ## What it flags

    `torch.compile(model)` as a statement of its own. Not flagged is the method: `model.compile()` changes the module
    in place and returns nothing.

    ## Why

    `torch.compile` leaves its argument as it is and returns a compiled version. Where that is not used, the code runs
    as if the line were not there, at the speed of eager code and without a warning.

    ## Example

    ```python
    model = Model()
    torch.compile(model)
    model(x)
    ```

    Use instead:

    ```python
    model = Model()
    model.compile()
    model(x)
    ```

    ## How it is rewritten

    It is not, since from then on the code would really be compiled: breaks, recompilations and the time for compiling
    would appear where there are none now. For a module write `model.compile()`, for a function bind the result to its
    name.

    ## When the rewrite is not exact

    There is no rewrite.

    ## How Dynamo words it

    It says nothing, because nothing is compiled before the result is called.

    ## References

    - https://docs.pytorch.org/docs/stable/generated/torch.compile.html
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.compile
    """

    code = "DYN004"
    name = "discarded-result"
    summary = "The result of `torch.compile` is thrown away, and nothing is compiled"
    category = "advice"
    severity = "warning"
    events = (CompilerUse,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag calls whose value is a statement."""
        found = compilation(event, project)
        if found is not None and isinstance(project.parents(event.function).get(found.call), ast.Expr):
            subject = event.function.file.segment(found.subject)
            yield Violation(
                found.call,
                "`torch.compile` returns a compiled version and leaves its argument as it is: nothing is compiled here",
                help=f"Write `{subject}.compile()` for a module, or keep the result: `{subject} = torch.compile(...)`.",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Say why there is none."""
        return Declined("with the result in use the code would be compiled, which it is not now; decide whether to")

    examples = (
        Example(
            name="statement",
            code="""
                import torch
                from torch import nn

                model = nn.Linear(8, 8)
                torch.compile(model)  # DYN004
            """,
            target="model",
            declined="decide whether",
        ),
        Example(
            name="statement-in-a-function",
            code="""
                from torch import compile, nn


                def build(fast: bool):
                    model = nn.Linear(8, 8)
                    if fast:
                        compile(model, mode="max-autotune")  # DYN004
                    return model
            """,
            target="build(False)",
            declined="decide whether",
        ),
        Example(
            name="kept",
            code="""
                import torch
                from torch import nn

                model = nn.Linear(8, 8)
                model = torch.compile(model)
                other = nn.Linear(8, 8)
                other.compile()
            """,
            target="model",
        ),
    )
