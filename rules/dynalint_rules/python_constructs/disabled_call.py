"""DYN717: calls of functions that Dynamo is told to keep out of."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.functions import DISABLED
from dynalint.analysis.project import Project
from dynalint.rules import Example, Rule, Violation
from dynalint_rules._shared.examples import forward


class DisabledCall(Rule):
    """Call a function that is marked to be left out of graphs.

    ## What it flags

    As advice: calls of functions under `@torch.compiler.disable` in code that is compiled. Not flagged: the function
    under the decorator itself, which is left alone, and functions under `@torch.compiler.assume_constant_result`, which
    break nothing. For `torch._dynamo.graph_break()` there is DYN614.

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

    GB0098: `Skip calling torch.compiler.disable()d function`.

    ## References

    - https://docs.pytorch.org/docs/stable/generated/torch.compiler.disable.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0098.html
    """

    code = "DYN717"
    name = "disabled-call"
    summary = "a call of a function that Dynamo is told to keep out of ends the graph"
    category = "advice"
    severity = "info"
    gb = ("GB0098",)
    events = (Call,)
    calls = frozenset({DISABLED})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Tell of the call."""
        if isinstance(event, Call):
            yield Violation(event.node, "the graph ends here, as the decorator of the called function wants it")

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
