"""DYN717: graph breaks that are asked for."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.functions import DISABLED
from dynalint.analysis.project import Project
from dynalint.rules import Example, Rule, Violation
from dynalint_rules._shared.examples import forward


class ExplicitBreak(Rule):
    """Ask for a graph break within compiled code.

    ## What it flags

    As advice: calls of functions under `@torch.compiler.disable`, `torch._dynamo.graph_break()` and
    `torch._dynamo.skip_frame()` in code that is compiled. Not flagged: the function under the decorator itself, which
    is left alone, and `@torch.compiler.assume_constant_result`, which breaks nothing.

    ## Why

    It is meant, so it is no fault. But it costs what every break costs: the graph ends, and with `fullgraph=True` the
    code does not compile. In a loop, or in a layer that is called many times, it is easily forgotten.

    ## Example

    ```python
    @torch.compiler.disable
    def log(h):
        print(h.mean())


    def forward(self, x):
        h = self.fc(x)
        log(h)
        return h
    ```

    Use instead:

    ```python
    def forward(self, x):
        h = self.fc(x)
        if not torch.compiler.is_compiling():
            log(h)
        return h
    ```

    ## How it is rewritten

    It is not: whoever wrote it wanted the code to run.

    ## When the rewrite is not exact

    There is none.

    ## How Dynamo words it

    GB0098: `Skip calling torch.compiler.disable()d function`, GB0025: `Call to torch._dynamo.graph_break()`, GB4297:
    `Call to torch._dynamo.skip_frame()`.

    ## References

    - https://docs.pytorch.org/docs/stable/generated/torch.compiler.disable.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0098.html
    """

    code = "DYN717"
    name = "explicit-break"
    summary = "a graph break that the code asks for"
    category = "advice"
    severity = "info"
    gb = ("GB0098", "GB0025", "GB4297")
    events = (Call,)
    calls = frozenset({DISABLED, "torch._dynamo.graph_break", "torch._dynamo.skip_frame"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Tell of the call."""
        if isinstance(event, Call):
            by = "called function is kept from being compiled" if event.callee == DISABLED else "code asks for it"
            yield Violation(event.node, f"the graph ends here, as the {by}")

    examples = (
        Example(
            name="disabled-function",
            code=forward(
                """
                h = self.fc(x)
                return shifted(h) * 2  # DYN717
                """,
                head="""
                @torch.compiler.disable
                def shifted(value):
                    return value + 1
                """,
            ),
            shows="graph-break",
        ),
        Example(
            name="break-by-call",
            code=forward(
                """
                h = self.fc(x)
                torch._dynamo.graph_break()  # DYN717
                return h * 2
                """,
            ),
            shows="graph-break",
        ),
        Example(
            name="constant-result",
            code=forward(
                "return self.fc(x) * scale()",
                head="""
                @torch.compiler.assume_constant_result
                def scale():
                    return 3
                """,
            ),
        ),
        Example(
            name="in-eager-code",
            code=forward(
                """
                h = self.fc(x)
                if not torch.compiler.is_compiling():
                    shifted(h)
                return h * 2
                """,
                head="""
                @torch.compiler.disable
                def shifted(value):
                    return value + 1
                """,
            ),
        ),
    )
